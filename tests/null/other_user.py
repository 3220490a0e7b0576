"""What another user of the machine does: functions run as ``nobody``."""

from __future__ import annotations

import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NOBODY = 65534

needs_another_user = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user"
)


def as_nobody(act: Callable[[], object]) -> bool:
    """Run ``act`` in a process of the user nobody; whether the system let it.

    Raises AssertionError where it ends otherwise than well or with a PermissionError.
    """
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.umask(0)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
            code = 0
        except PermissionError:
            code = 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 1), "it could not be tried"
    return code == 0


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of ours that every user may enter, unlike pytest's."""
    made = Path(tempfile.mkdtemp(prefix="ocl_inductor_trust_"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def open_to_all(*folders: Path) -> None:
    """As an earlier version left them under a lax umask, or their owner on purpose."""
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
