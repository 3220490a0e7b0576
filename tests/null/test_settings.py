"""Settings: precedence, parsing, refusals."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import platformdirs
import pytest
from click.testing import CliRunner

from ocl_inductor.cli import main
from ocl_inductor.errors import OpenCLInductorError, UnknownOptionError
from ocl_inductor.settings import Settings, default_cache_dir


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for spec in fields(Settings):
        monkeypatch.delenv(spec.metadata["env"], raising=False)
    monkeypatch.delenv("TORCH_COMPILE_DEBUG", raising=False)


def test_defaults() -> None:
    settings = Settings.resolve()
    assert settings.device is None
    assert (settings.fallback, settings.profile, settings.memory) == ("warn", "auto", "auto")
    assert settings.mode == "default"
    assert settings.cache and not settings.verify
    assert settings.debug_dir is None
    assert settings.compile_threads >= 1


def test_option_wins_over_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_DEVICE", "from-env")
    assert Settings.resolve().device == "from-env"
    assert Settings.resolve(options={"device": "from-option"}).device == "from-option"
    assert Settings.resolve(options={"device": None}).device is None


def test_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_FALLBACK", "")
    assert Settings.resolve().fallback == "warn"


@pytest.mark.parametrize(
    ("text", "value"), [("1", True), ("ON", True), ("true", True), ("0", False), ("no", False)]
)
def test_booleans_from_text(monkeypatch: pytest.MonkeyPatch, text: str, value: bool) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_VERIFY", text)
    assert Settings.resolve().verify is value


def test_mode_by_keyword_and_by_option() -> None:
    assert Settings.resolve(mode="max-autotune").mode == "max-autotune"
    assert Settings.resolve(options={"mode": "reduce-overhead"}).mode == "reduce-overhead"


def test_paths() -> None:
    assert Settings.resolve(options={"cache_dir": "/some/where"}).cache_dir == Path("/some/where")


def test_a_cache_folder_that_cannot_be_is_refused_in_few_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deep = "/" + "abcdefg/" * 505  # what lies below would have a path too long
    for given, valid in (
        ("~nobody-of-this-name/x", "a home folder that exists"),
        ("/tmp/" + "x" * 5000, "at most 255 bytes each"),
        (deep, "a shorter path"),
    ):
        monkeypatch.setenv("OCL_INDUCTOR_CACHE_DIR", given)
        for ask in (Settings.resolve, default_cache_dir):
            with pytest.raises(UnknownOptionError, match=f"OCL_INDUCTOR_CACHE_DIR.*{valid}") as e:
                ask()
            assert len(str(e.value)) < 400
        done = CliRunner().invoke(main, ["cache", "stats"])
        assert done.exit_code == 2 and valid in done.output and len(done.output) < 600
    with pytest.raises(UnknownOptionError, match="without null characters"):
        Settings.resolve(options={"cache_dir": "a\0b"})


def test_without_a_home_the_variable_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *a, **k: "~nobody-of-this-name/x")
    with pytest.raises(OpenCLInductorError, match="Name a folder with OCL_INDUCTOR_CACHE_DIR"):
        default_cache_dir()


def test_torch_debug_sets_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setenv("TORCH_COMPILE_DEBUG_DIR", str(tmp_path))
    assert Settings.resolve().debug_dir == tmp_path / "ocl_inductor"


def test_unknown_option_suggests() -> None:
    with pytest.raises(UnknownOptionError, match="Did you mean 'device'") as caught:
        Settings.resolve(options={"devcie": "cpu"})
    assert set(caught.value.facts["valid"]) == {f.name for f in fields(Settings)}


def test_unknown_mode_lists_valid() -> None:
    with pytest.raises(UnknownOptionError, match="Unknown mode 'fastest'") as caught:
        Settings.resolve(mode="fastest")
    assert "reduce-overhead" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"fallback": "never"},
        {"profile": 3},
        {"cache": "maybe"},
        {"compile_threads": 0},
        {"compile_threads": True},
        {"device": ""},
        {"device": 1},
        {"cache_dir": None},
    ],
)
def test_bad_values_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(UnknownOptionError, match=f"value of option {next(iter(options))}"):
        Settings.resolve(options=options)


def test_bad_environment_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_INDUCTOR_MEMORY", "somewhere")
    with pytest.raises(UnknownOptionError, match="OCL_INDUCTOR_MEMORY"):
        Settings.resolve()


def test_code_key_is_of_code_settings_only() -> None:
    base = Settings.resolve()
    same = Settings.resolve(options={"cache": False, "verify": True, "fallback": "error"})
    other = Settings.resolve(options={"profile": "simt"})
    assert base.code_key() == same.code_key() != other.code_key()
    hash(base.code_key())


def test_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Settings.resolve().device = "x"  # type: ignore[misc]


def test_every_field_is_documented() -> None:
    for spec in fields(Settings):
        assert spec.metadata["help"] and spec.metadata["env"].startswith("OCL_INDUCTOR_")
