"""The system calls that a sealed rank may make, with their numbers.

Here are those that Python, numpy and torch need to compute, and to talk on what is
open already. What changes a file or another process, makes a process, a socket or a
shared memory, or is only for administrators is absent.
"""

from __future__ import annotations

_TABLE = """
read 0 63, readv 19 65, pread64 17 67, preadv 295 69
write 1 64, writev 20 66, pwrite64 18 68, sendto 44 206, recvfrom 45 207
open 2 -, openat 257 56, close 3 57, lseek 8 62, dup 32 23, dup2 33 -, dup3 292 24
fcntl 72 25, ioctl 16 29, pipe 22 -, pipe2 293 59, eventfd2 290 19
stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43
fstatfs 138 44, access 21 -, faccessat 269 48, readlink 89 -, readlinkat 267 78
getdents64 217 61, getcwd 79 17, chdir 80 49, umask 95 166
shutdown 48 210, getsockname 51 204, getpeername 52 205, getsockopt 55 209

mmap 9 222, mprotect 10 226, munmap 11 215, mremap 25 216, brk 12 214, madvise 28 233

poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72, epoll_create 213 -
epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22
pause 34 -, nanosleep 35 101, clock_nanosleep 230 115, sched_yield 24 124
restart_syscall 219 128

clone 56 220, futex 202 98, set_robust_list 273 99, set_tid_address 218 96
rseq 334 293, membarrier 324 283, arch_prctl 158 -, exit 60 93, exit_group 231 94
wait4 61 260, waitid 247 95

rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136
rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132
kill 62 129, tgkill 234 131

getpid 39 172, getppid 110 173, gettid 186 178, getpgrp 111 -, getpgid 121 155
getsid 124 156, getuid 102 174, geteuid 107 175, getgid 104 176, getegid 108 177
getgroups 115 158, getresuid 118 148, getresgid 120 150, getpriority 140 141
prctl 157 167, getrlimit 97 163, prlimit64 302 261, getrusage 98 165, times 100 153
uname 63 160, sysinfo 99 179, getcpu 309 168, sched_getaffinity 204 123
sched_getscheduler 145 120, sched_getparam 143 121, sched_get_priority_max 146 125
sched_get_priority_min 147 126, getrandom 318 278

time 201 -, gettimeofday 96 169, clock_gettime 228 113, clock_getres 229 114
alarm 37 -, getitimer 36 102, setitimer 38 103, timer_create 222 107
timer_settime 223 110, timer_gettime 224 108, timer_getoverrun 225 109
timer_delete 226 111

close_range 436 436, faccessat2 439 439, epoll_pwait2 441 441
"""
"""The name, the number on x86_64 and the one on aarch64, - where it has none."""

FIRST_OF_ALL = 424
"""From here on numbers are the same everywhere, and programs know what to do where a
call does not exist: ENOSYS is the answer, also to calls of kernels to come."""


def _numbers(column: int) -> dict[str, int]:
    rows = (row.split() for row in _TABLE.replace("\n", ",").split(",") if row.strip())
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


ALLOWED = {"x86_64": _numbers(1), "aarch64": _numbers(2)}
"""By machine, the numbers by name."""
