"""Whom the kernel kills when memory runs out."""

from __future__ import annotations

import posix

from .procfs import Gone, Procfs


class OomScore:
    """Makes the kernel kill the function rather than an extension, by the function's `oom_score_adj`
    (proc_pid_oom_score_adj(5)).

    The kernel kills the process that holds most, plus its adjustment in thousandths of the limit. Raising it needs no
    privilege, and children inherit it. Where each process of the function holds little (many small ones, files in
    /tmp), the kernel would kill an extension, and lose what it knows. One that really holds most is still killed."""

    def __init__(self, proc: Procfs, adjustment: int) -> None:
        """`adjustment`: what each process gets at least, 0 to 1000; 0 leaves all as they are."""
        self._proc = proc
        self._adjustment = adjustment
        self.refused = ""
        """Why it cannot be raised here, or ""."""

    def raise_for(self, pid: int) -> None:
        """Raise the adjustment of one process. Raises no exception."""
        if not self._adjustment or self.refused:
            return
        name = f"{pid}/oom_score_adj"
        try:
            if int(self._proc.text(name, 16)) >= self._adjustment:
                return  # inherited, or its own
            descriptor = posix.open(f"{self._proc.root}/{name}", posix.O_WRONLY | posix.O_CLOEXEC)
            try:
                posix.write(descriptor, b"%d" % self._adjustment)
            finally:
                posix.close(descriptor)
        except (Gone, ValueError, FileNotFoundError, ProcessLookupError):
            return  # it has ended
        except OSError as error:
            self.refused = f"oom_score_adj: {error.strerror}"
