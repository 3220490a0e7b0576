"""Rows of the sweep: what the loader refuses and what it says; every row of this repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ocl_inductor.sweep.rows.build import build
from ocl_inductor.sweep.rows.config import CONFIGS, ConfigError, UnknownModelError, load, load_all

# The suite of TorchBench in January 2023, when the paper (arXiv 2304.14226) counts 84 models.
PAPER = """
BERT_pytorch Background_Matting DALLE2_pytorch LearningToPaint Super_SloMo alexnet
attention_is_all_you_need_pytorch dcgan demucs densenet121 detectron2_fasterrcnn_r_101_c4
detectron2_fasterrcnn_r_101_dc5 detectron2_fasterrcnn_r_101_fpn detectron2_fasterrcnn_r_50_c4
detectron2_fasterrcnn_r_50_dc5 detectron2_fasterrcnn_r_50_fpn detectron2_fcos_r_50_fpn
detectron2_maskrcnn detectron2_maskrcnn_r_101_c4 detectron2_maskrcnn_r_101_fpn
detectron2_maskrcnn_r_50_c4 detectron2_maskrcnn_r_50_fpn dlrm doctr_det_predictor
doctr_reco_predictor drq fambench_xlmr fastNLP_Bert functorch_dp_cifar10 functorch_maml_omniglot
hf_Albert hf_Bart hf_Bert hf_Bert_large hf_BigBird hf_DistilBert hf_GPT2 hf_GPT2_large
hf_Longformer hf_Reformer hf_T5 hf_T5_base hf_T5_large lennard_jones maml maml_omniglot
mnasnet1_0 mobilenet_v2 mobilenet_v2_quantized_qat mobilenet_v3_large moco
nvidia_deeprecommender opacus_cifar10 phlippe_densenet phlippe_resnet pyhpc_equation_of_state
pyhpc_isoneutral_mixing pyhpc_turbulent_kinetic_energy pytorch_CycleGAN_and_pix2pix
pytorch_stargan pytorch_struct pytorch_unet resnet152 resnet18 resnet50 resnet50_quantized_qat
resnext50_32x4d shufflenet_v2_x1_0 soft_actor_critic speech_transformer squeezenet1_1 tacotron2
timm_efficientdet timm_efficientnet timm_nfnet timm_regnet timm_resnest timm_vision_transformer
timm_vision_transformer_large timm_vovnet tts_angular vgg16 vision_maskrcnn yolov3
""".split()

ROW: dict[str, Any] = {
    "name": "row",
    "domain": "other",
    "task": "a test",
    "source": {"package": "torch", "paper": "none"},
    "constructor": "torch.nn:Linear",
    "arguments": {"in_features": 3, "out_features": 2},
    "inputs": [{"shape": ["B", 3]}],
    "batch": {"inference": 2, "training": 2},
}


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "row.yaml"
    row = {key: value for key, value in {**ROW, **changes}.items() if value is not None}
    path.write_text(yaml.safe_dump(row))
    return path


def test_a_plain_row_is_read(tmp_path: Path) -> None:
    config = load(write(tmp_path))
    assert config.batch.inference == 2
    assert config.inputs[0].shape == ("B", 3)
    assert config.expected("training") == "pass"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"batchs": 1}, "batchs: unknown key; the nearest known one is `batch`"),
        (
            {"inputs": [{"shap": ["B"]}]},
            "inputs.0.shap: unknown key; the nearest known one is `shape`",
        ),
        ({"loss": {"knd": "own"}}, "loss.knd: unknown key; the nearest known one is `kind`"),
        ({"task": None}, "task: missing"),
        ({"task": 3}, "task: Input should be a valid string; got 3"),
        ({"constructor": "torch.nn.Linear"}, "constructor: "),
        ({"inputs": [{"shape": ["B+1"]}]}, "size 'B+1' is not a number"),
        ({"inputs": [{"shape": [-1]}]}, "size -1 is not a number"),
        ({"inputs": [{"shape": ["S"]}]}, "`sizes` gives no value to: S"),
        ({"inputs": [{"dtype": "int64"}]}, "integers need `high`"),
        ({"inputs": [{"dtype": "int64", "low": 3, "high": 3}]}, "the range from 3.0 to 3.0"),
        ({"metric": "cosine"}, "`why` must explain: metric"),
        ({"status": "unsupported"}, "`why` must explain: status"),
        ({"status": {"training": "fail_accuracy"}}, "`why` must explain: status"),
        ({"modes": ["inference"]}, "`why` must explain: modes"),
        ({"why": {"modes": "all"}}, "`why` explains what is no exception: modes"),
        ({"modes": []}, "`modes` is empty"),
        ({"batch": {"inference": 1}}, "`batch.training` is missing"),
        ({"loss": {"kind": "cross_entropy"}}, "loss cross_entropy needs a `target`"),
        ({"loss": {"kind": "function"}}, "`function` belongs to kind `function`"),
        ({"resolutions": {"R": [1]}}, "`resolutions` of what `sizes` lacks: R"),
        ({"name": "other"}, "differs from the file's name"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = write(tmp_path, **changes)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_mistakes_come_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, task=3, batchs=1))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize("text", ["a: [", "- 1", ""])
def test_files_that_are_no_rows(tmp_path: Path, text: str) -> None:
    path = tmp_path / "row.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        load(path)


def test_unknown_names_get_the_nearest(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UnknownModelError, match="Nearest: row"):
        load_all(tmp_path, ["rows"])
    with pytest.raises(ConfigError, match="no such folder"):
        load_all(tmp_path / "nowhere")


def test_every_row_of_the_repository_is_valid() -> None:
    rows = load_all(CONFIGS)
    assert rows
    others = {path.name for path in CONFIGS.iterdir() if path.suffix != ".yaml"}
    assert others - {"__pycache__"} == {"__init__.py", "models"}
    assert len(PAPER) == 84
    assert {name for name, row in rows.items() if "paper" in row.suites} == set(PAPER)
    assert {"llama", "nanogpt", "hf_Whisper", "sam", "stable_diffusion_unet"} <= set(rows)
    assert 6 <= sum("smoke" in row.suites for row in rows.values()) <= 12


def test_every_file_of_models_is_used() -> None:
    """Named by a row, by another model, by the harness (``choice``), or by the benchmarks."""
    files = {path.stem for path in (CONFIGS / "models").glob("*.py")} - {"__init__"}
    sources = [*CONFIGS.glob("*.yaml"), *(CONFIGS / "models").glob("*.py")]
    sources.append(CONFIGS.parent / "ocl_inductor" / "sweep" / "run" / "kinks.py")
    sources += (CONFIGS.parent / "benchmarks").rglob("*.py")
    texts = [path.read_text() for path in sources]
    named = {
        name for text in texts for name in re.findall(r"torchbench_configs\.models\.(\w+)", text)
    }
    assert files == named


def test_the_row_in_adding_is_one(tmp_path: Path) -> None:
    page = (CONFIGS.parent / "docs" / "adding.md").read_text()
    (text,) = re.findall(r"^```yaml\n(.*?)^```", page, re.S | re.M)
    path = tmp_path / "small_mlp.yaml"
    path.write_text(text)
    model = build(load(path), "training", batch_size=2)
    assert model.forward().shape == (2, 1)


def test_table_in_the_docs_has_every_row() -> None:
    page = (CONFIGS.parent / "docs" / "models.md").read_text()
    table = page.split("<!-- rows:begin -->")[1].split("<!-- rows:end -->")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert listed == sorted(load_all(CONFIGS)), "run tools/models_table.py"
