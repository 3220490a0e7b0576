"""Latent diffusion with diffusers: digits out of noise.

    python examples/diffusion.py

A small VAE learns to compress scans of digits, a UNet to take noise from what it makes of them,
and a scheduler's loop turns noise into new digits; the picture shows them above real ones.
"""

from __future__ import annotations

import copy

from common import check_close, check_counters, console, graphs, options, step, summary
from data import digits

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DModel
from torch import Tensor, nn

SIZE = 16


def images(count: int) -> Tensor:
    """Random scans (N, 1, 16, 16) with levels from -1 to 1."""
    scans = digits()[0]
    chosen = scans[torch.randint(len(scans), (count,))]
    return nn.functional.interpolate(chosen, size=SIZE, mode="bilinear") * 2 - 1


def train(model: nn.Module, loss_of, steps: int, what: str) -> int:
    """How many graphs there were after the second step."""
    optimiser, settled = torch.optim.AdamW(model.parameters(), lr=2e-3), 0
    with step(f"{what}, {steps} steps") as show:
        for number in range(steps):
            loss = loss_of()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            settled = graphs() if number == 1 else settled
            show(f"{number + 1}, loss {loss.item():.3f}")
    return settled


def save(rows: list[Tensor], path) -> None:
    from PIL import Image

    grid = torch.cat([torch.cat(list(row[:, 0]), 1) for row in rows])
    levels = ((grid.clamp(-1, 1) + 1) * 127.5).byte().numpy()
    Image.fromarray(levels).resize((6 * grid.shape[1], 6 * grid.shape[0]), 0).save(path)


def main() -> None:
    chosen = options(__doc__.splitlines()[0], steps=(200, "steps of the UNet"))
    vae = AutoencoderKL(
        in_channels=1,
        out_channels=1,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
    )
    unet = UNet2DModel(
        sample_size=SIZE // 2,
        in_channels=4,
        out_channels=4,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=8,
    )
    scheduler = DDIMScheduler(num_train_timesteps=200)
    autoencode = torch.compile(vae, backend="opencl")
    predict = torch.compile(unet, backend="opencl")

    def vae_loss() -> Tensor:
        given = images(32)
        return nn.functional.mse_loss(autoencode(given).sample, given)

    settled = train(vae, vae_loss, chosen.steps // 2, "VAE")
    if chosen.check:
        check_counters(settled)
    vae.requires_grad_(False).eval()
    with torch.no_grad():
        latents = vae.encode(images(512)).latent_dist.mode()
        spread = latents.std()

    def unet_loss() -> Tensor:
        clean = latents[torch.randint(len(latents), (48,))] / spread
        noise, times = torch.randn_like(clean), torch.randint(200, (48,))
        return nn.functional.mse_loss(
            predict(scheduler.add_noise(clean, noise, times), times).sample, noise
        )

    settled = train(unet, unet_loss, chosen.steps, "UNet")
    if chosen.check:
        check_counters(settled)
    unet.eval()
    scheduler.set_timesteps(20)
    decode = torch.compile(vae.decode, backend="opencl")
    x = torch.randn(8, 4, SIZE // 2, SIZE // 2)
    with step("20 steps from noise to digits"), torch.no_grad():
        for time in scheduler.timesteps:
            x = scheduler.step(predict(x, time).sample, time, x).prev_sample
        made = decode(x * spread).sample
    console.print(summary())
    save([made, images(8)], chosen.output / "diffusion.png")
    console.print(f"picture: {chosen.output / 'diffusion.png'}")

    if chosen.check:
        with torch.no_grad():
            time = torch.tensor(50)
            exact = copy.deepcopy(unet).double()(x.double(), time).sample
            check_close(predict(x, time).sample, unet(x, time).sample, exact)
            exact = copy.deepcopy(vae).double().decode((x * spread).double()).sample
            check_close(made, vae.decode(x * spread).sample, exact)
        assert torch._dynamo.utils.counters["opencl"]["fallbacks"] == 0
        assert made.std() > 0.3, "the picture is grey"


if __name__ == "__main__":
    main()
