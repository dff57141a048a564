"""The processes of a made-up environment, and what /proc, /sys and the cgroup say of them. Sizes in KiB."""

from __future__ import annotations

from . import kernel as k
from .rolls import EXACT, Rolls, mangled

OWN_PID = 9
TICK = 10 * k.MS
BOOT_ID = b"8f2a2a6e-0d5b-4b9e-9d0e-0123456789ab\n"
KINDS = ("memory", "memory.max", "status", "stat")


class Process:
    def __init__(self, pid: int, parent: int, name: bytes, began: int, **about: bytes) -> None:
        self.pid, self.parent, self.name, self.began = pid, parent, name, began
        self.about = about
        """`environ`, `cmdline`, `exe`, `cgroup`."""
        self.state = b"S"
        self.has_memory = True
        self.anon, self.file, self.shmem = 4000, 2500, 0
        self.hwm = self.rss
        self.faults = self.child_faults = 0
        self.cpu = self.child_cpu = 0
        self.threads = [pid]
        self.sockets: list[int] = []
        self.files = 5
        self.pending = 0
        self.score = 0
        self.start_code = 0x55D0_0000_0000 + pid * 4096

    @property
    def rss(self) -> int:
        return self.anon + self.file + self.shmem

    def touch(self, kib: int) -> None:
        """So much more, or less."""
        self.anon = max(100, self.anon + kib)
        if kib > 0:
            self.faults += kib // 4
            self.hwm = max(self.hwm, self.rss)
        self.cpu += abs(kib) * 500


class Processes:
    """All of one environment: pid 1 is the platform, OWN_PID the sidecar."""

    def __init__(self, rolls: Rolls, address: bytes, limit_kib: int) -> None:
        self._rolls = rolls
        self._address = address
        self.limit_kib = limit_kib
        self.last_pid = OWN_PID
        self.all: dict[int, Process] = {}
        self.own_pid = OWN_PID
        self.own_tmp = True
        self.mangles = rolls.pick((0, 0, 0, 2, 10, 60))
        """Texts with something wrong, of 1,000."""
        self.is_huge = rolls.chance(40)
        """Numbers of the kernel that no kernel has."""
        self.group = rolls.pick((b"", b"", b"cgroup2", b"cgroup2", b"cgroup1", b"nested"))
        self.huge_pages = rolls.pick(
            (b"always madvise [never]", b"always [madvise] never", b"[always] madvise never", b"")
        )
        self.refuses_reset = rolls.chance(80)
        self.hides_children = rolls.chance(100)
        self.kills = 0
        self.thp = 0
        self.peak = 0
        self.runtime_pid = 0
        self.extensions: list[int] = []
        self.add(Process(1, 0, b"init", 5, cmdline=b"/var/rapid/init\0"))
        own = Process(OWN_PID, 1, b"truemem", 100, cmdline=b"/opt/extensions/truemem\0", exe=b"/opt/extensions/truemem")
        own.about["environ"] = b"AWS_LAMBDA_RUNTIME_API=" + address + b"\0"
        self.add(own)
        for number in range(rolls.pick((0, 0, 1, 1, 3))):
            self.start_extension(number)

    def add(self, process: Process) -> Process:
        self.all[process.pid] = process
        self.last_pid = max(self.last_pid, process.pid)
        return process

    def _next_pid(self) -> int:
        self.last_pid += 1
        return self.last_pid

    def start_extension(self, number: int) -> None:
        name = b"vendor%d" % number
        path = b"/opt/extensions/" + name
        rolls = self._rolls
        script = rolls.chance(300)
        made = Process(self._next_pid(), 1, name, 110, cmdline=(b"python3\0" if script else b"") + path + b"\0")
        made.about["exe"] = b"/usr/bin/python3" if script else path
        made.about["environ"] = b"AWS_LAMBDA_RUNTIME_API=" + self._address + b"\0"
        self.extensions.append(self.add(made).pid)

    def start_runtime(self, exact_port: int) -> Process:
        rolls = self._rolls
        address = b"127.0.0.1:%d" % exact_port if exact_port else self._address
        if rolls.chance(60):
            address = b"127.0.0.1:9999"  # of another vendor's proxy
        variables = [
            b"AWS_LAMBDA_RUNTIME_API=" + address,
            b"_HANDLER=app.handler",
            b"AWS_EXECUTION_ENV=AWS_Lambda_python",
        ]
        if rolls.chance(80):
            del variables[rolls.below(3)]
        environ = b"\0".join(variables) + b"\0"
        parent = 1
        if rolls.chance(150):  # the shell of an entrypoint
            shell = Process(self._next_pid(), 1, b"bootstrap", self.ticks(), environ=environ, cmdline=b"/bin/sh\0")
            shell.anon, shell.file = 200, 900
            parent = self.add(shell).pid
        made = Process(
            self._next_pid(), parent, rolls.pick((b"python3.12", b"node", b"java) R (", b"a b")), self.ticks()
        )
        made.about = {
            "environ": environ,
            "cmdline": b"/var/lang/bin/python3\0bootstrap\0",
            "exe": b"/var/lang/bin/python3",
        }
        made.hwm = made.rss
        for _ in range(rolls.pick((0, 0, 0, 1, 3))):
            made.threads.append(self._next_pid())
        self.runtime_pid = self.add(made).pid
        return made

    def fork(self, parent: Process) -> Process | None:
        if len(self.all) > 40:
            return None
        pid = self._next_pid()
        made = Process(pid, parent.pid, self._rolls.pick((parent.name, b"sh", b"worker")), self.ticks(), **parent.about)
        made.anon, made.file = self._rolls.scale(8000) + 100, parent.file
        made.hwm = made.rss
        made.start_code = parent.start_code
        return self.add(made)

    def end(self, process: Process, waited: bool = True) -> None:
        """It has ended; `waited`: its parent has waited for it."""
        process.has_memory, process.state = False, b"Z"
        if waited:
            self.reap(process)

    def reap(self, process: Process) -> None:
        self.all.pop(process.pid, None)
        parent = self.all.get(process.parent)
        if parent is not None:
            parent.child_faults += process.faults + process.child_faults
            parent.child_cpu += process.cpu + process.child_cpu
        for child in self.all.values():
            if child.parent == process.pid:
                child.parent = 1

    def of_function(self) -> list[Process]:
        return [each for pid, each in self.all.items() if pid not in (1, OWN_PID, *self.extensions)]

    def ticks(self) -> int:
        return k.kernel.now // TICK % 10**9 + 200

    def since_boot(self) -> float:
        k.kernel.now += 150
        return self.ticks() / 100

    def used(self) -> int:
        used = sum(each.rss for each in self.all.values() if each.has_memory) + 20_000
        self.peak = max(self.peak, used)
        return used

    def cpu_clock(self, pid: int) -> int:
        process = self.all.get(pid)
        if process is None:
            k.refuse(k.EINVAL)
        return process.cpu

    # Files

    def exists(self, path: str) -> bool:
        parts = path.split("/")
        if len(parts) > 2 and parts[1] == "proc" and parts[2].isdecimal():
            pid = int(parts[2])
            if len(parts) == 3 and any(pid in each.threads for each in self.all.values()):
                return True
            if pid not in self.all:
                return False
            return parts[3:4] != ["task"] or len(parts) < 5 or int(parts[4]) in self.all[pid].threads
        if path.startswith("/sys/fs/cgroup"):
            return self._group_file(path) is not None
        return not path.startswith("/proc/self/root")

    def read(self, path: str) -> bytes:
        text = self._read(path)
        if not (self.mangles and self._rolls.chance(self.mangles)):
            return text
        made = mangled(self._rolls, text, EXACT)
        # Digits of two numbers may have come together.
        return text if any(15 < len(word) <= 20 for word in made.split() if word not in text) else made

    def _read(self, path: str) -> bytes:
        parts = path.split("/")
        if parts[1] == "sys":
            return self._of_sys(path)
        if parts[2] == "self":
            parts[2] = str(OWN_PID)
        if parts[2].isdecimal():
            process = self.all.get(int(parts[2]))
            if process is None:
                k.refuse(k.ESRCH)
            if parts[3] == "task":
                return self._of_task(process, int(parts[4]), parts[5])
            return self._of_process(process, parts[3], process.pid)
        return self._of_all("/".join(parts[2:]))

    def _of_task(self, process: Process, thread: int, name: str) -> bytes:
        if thread not in process.threads:
            k.refuse(k.ESRCH)
        return self._of_process(process, name, thread)

    def _of_process(self, process: Process, name: str, thread: int) -> bytes:
        about = process.about
        if name == "stat":
            return self._stat(process, thread)
        if name == "status":
            return self._status(process, thread)
        if name == "statm":
            if not process.has_memory or (thread == process.pid and process.state == b"Z"):
                return b"0 0 0 0 0 0 0\n"
            return b"%d %d %d 1 0 1 0\n" % (process.rss // 2, process.rss // 4, (process.file + process.shmem) // 4)
        if name == "schedstat":
            return b"%d 0 1\n" % (process.cpu // len(process.threads))
        if name == "environ":
            return about.get("environ", b"") if process.has_memory else b""
        if name == "cmdline":
            return about.get("cmdline", b"") if process.has_memory else b""
        if name == "cgroup":
            return about.get("cgroup", self._membership())
        if name == "oom_score_adj":
            return b"%d\n" % process.score
        if name == "limits":
            return (
                b"Limit                     Soft Limit           Hard Limit           Units     \n"
                b"Max processes             1024                 1024                 processes \n"
                b"Max open files            %d                 1024                 files     \n"
            ) % self._rolls.pick((1024, 1024, 30))
        return k.refuse(k.EACCES if name in ("mem", "maps", "syscall") else k.ENOENT)

    def _stat(self, process: Process, thread: int) -> bytes:
        state = process.state if thread == process.pid else b"S"
        where = b"%d %d %d" % (
            (process.start_code, process.start_code + 999, 0x7FFF_0000_0000) if process.has_memory else (0, 0, 0)
        )
        mib = process.rss // 4 if process.has_memory else 0
        return (
            b"%d (%s) %s %d 1 1 0 -1 4194560 %d %d %d %d %d %d %d %d 20 0 %d 0 %d %d %d 18446744073709551615 %s 0 0\n"
            % (
                *(thread, process.name, state, process.parent, process.faults, process.child_faults, 0, 0),
                *(process.cpu // TICK, 0, process.child_cpu // TICK, 0, len(process.threads), process.began),
                *(process.rss * 1024 if process.has_memory else 0, mib, where),
            )
        )

    def _status(self, process: Process, thread: int) -> bytes:
        head = b"Name:\t%s\nUmask:\t0022\nState:\t%s\nTgid:\t%d\nPid:\t%d\nPPid:\t%d\nFDSize:\t64\n" % (
            *(process.name, process.state, process.pid, thread, process.parent),
        )
        sizes = b""
        if process.has_memory and not (thread == process.pid and process.state == b"Z"):
            scale = 10**10 if self.is_huge else 1
            sizes = b"VmPeak:\t  90000 kB\nVmSize:\t  90000 kB\nVmHWM:\t%8d kB\nVmRSS:\t%8d kB\nRssAnon:\t%8d kB\n" % (
                *(process.hwm * scale, process.rss * scale, process.anon * scale),
            )
            sizes += b"RssFile:\t%8d kB\nRssShmem:\t%8d kB\nVmData:\t 4000 kB\n" % (
                process.file * scale,
                process.shmem * scale,
            )
        tail = b"Threads:\t%d\nSigPnd:\t0000000000000000\nShdPnd:\t%016x\nSeccomp:\t0\n"
        return head + sizes + tail % (len(process.threads), process.pending)

    def _of_all(self, name: str) -> bytes:
        if name == "loadavg":
            return b"0.00 0.01 0.05 1/80 %d\n" % self.last_pid
        if name == "meminfo":
            total = self.limit_kib + 40_000
            return b"MemTotal: %9d kB\nMemFree: 100 kB\nMemAvailable: %9d kB\n" % (total, max(0, total - self.used()))
        if name == "vmstat":
            figures = (self.thp, self.kills)
            return b"nr_free_pages 99\nthp_fault_alloc %d\nthp_collapse_alloc 0\noom_kill %d\nnuma_hit 7\n" % figures
        if name in ("net/tcp", "net/tcp6"):
            rows = [b"  sl  local_address rem_address   st ..."]
            if name == "net/tcp":
                row = b"   0: 0100007F:%04X 0100007F:%04X 01 0:0 00:0 0 0 0 %d 1"
                inodes = [inode for each in self.all.values() for inode in each.sockets]
                rows += [row % (inode >> 20, inode & 65535, inode) for inode in inodes]
            return b"\n".join([*rows, b""])
        if name == "sys/kernel/random/boot_id":
            return BOOT_ID
        return k.refuse(k.ENOENT)

    def _membership(self) -> bytes:
        paths = {b"cgroup2": b"0::/\n", b"nested": b"0::/a/b\n", b"cgroup1": b"9:cpu,memory:/box\n1:name=systemd:/\n"}
        return paths.get(self.group, b"0::/gone\n")

    def _group_file(self, path: str) -> bytes | None:
        used = self.used() * 1024
        events = b"low 0\nhigh 0\nmax 3\noom 0\noom_kill %d\n" % self.kills
        two = {"memory.current": b"%d\n" % used, "memory.peak": b"%d\n" % (self.peak * 1024), "memory.events": events}
        one = {"memory.usage_in_bytes": b"%d\n" % used, "memory.max_usage_in_bytes": b"%d\n" % (self.peak * 1024)}
        one["memory.oom_control"] = b"oom_kill_disable 0\nunder_oom 0\noom_kill %d\n" % self.kills
        folder, _, name = path.rpartition("/")
        if (folder, self.group) in (("/sys/fs/cgroup", b"cgroup2"), ("/sys/fs/cgroup/a/b", b"nested")):
            return two.get(name)
        if (folder, self.group) == ("/sys/fs/cgroup/memory/box", b"cgroup1"):
            return one.get(name)
        return None

    def _of_sys(self, path: str) -> bytes:
        text = self.huge_pages if path.endswith("transparent_hugepage/enabled") else self._group_file(path)
        if text is None:
            k.refuse(k.ENOENT)
        return text

    def write(self, path: str, data: bytes) -> None:
        process = self.all.get(int(path.split("/")[2])) if path.split("/")[2].isdecimal() else self.all[OWN_PID]
        if process is None:
            k.refuse(k.ESRCH)
        if path.endswith("clear_refs"):
            if self.refuses_reset:
                k.refuse(k.EACCES)
            process.hwm = process.rss
        elif path.endswith("oom_score_adj"):
            if self.refuses_reset:
                k.refuse(k.EPERM)
            process.score = int(data)

    def folder(self, path: str) -> list[str]:
        parts = path.rstrip("/").split("/")
        if parts[1] != "proc":
            return k.refuse(k.ENOENT)
        if len(parts) == 2:
            return [*map(str, self.all), "self", "meminfo", "net"]
        process = self.all.get(int(parts[2])) if parts[2].isdecimal() else None
        if process is None:
            return k.refuse(k.ENOENT)
        if parts[3] == "task":
            return [*map(str, process.threads)]
        if parts[3] == "fd":
            return [*map(str, range(process.files + len(process.sockets)))]
        return k.refuse(k.ENOTDIR)

    def link(self, path: str) -> str:
        parts = path.split("/")
        process = self.all.get(int(parts[2])) if parts[2].isdecimal() else None
        if process is None:
            return k.refuse(k.ENOENT)
        if parts[3] == "exe":
            return process.about.get("exe", b"/bin/busybox").decode()
        number = int(parts[4]) - process.files
        return f"socket:[{process.sockets[number]}]" if 0 <= number < len(process.sockets) else "/dev/null"

    def descriptors_of(self, path: str) -> int:
        parts = path.split("/")
        process = self.all.get(int(parts[2])) if parts[2].isdecimal() else self.all[OWN_PID]
        if process is None:
            return k.refuse(k.ENOENT)
        return process.files + len(process.sockets)

    def free_disk(self) -> int:
        return self._rolls.pick((130_000, 130_000, 9000, 0))
