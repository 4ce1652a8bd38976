#!/usr/bin/env python3
"""check_layers.py - which layer may include which, and which may call the OS.

usage: check_layers.py [--table] [DIR]

Reads src/, include/ and the pages below DIR (default: the project) and
reports, one line each,
  - an include that tools/layers.txt does not allow,
  - a public header that needs more than the four plain C headers,
  - a call that goes around the world seam (src/base/world.h),
  - a page whose table of layers, which follows the line
    `<!-- layers: tools/layers.txt -->`, differs from tools/layers.txt.
--table prints the table as such a page needs it.
Exit status 1 if anything was reported.
"""
import pathlib
import re
import sys

import layers

LAYERS = layers.read()

# The few files that touch the operating system, and what each may use.
# Everything else gets time, random numbers, threads, descriptors, files and
# processes from the world it is given.
POSIX = "src/base/world_posix.c"
POSIX_FILES = re.compile(r"src/base/(.*/)?(world_posix\.[ch]|posix_\w+\.c"
                         r"|crash_watchdog\.c|lock\.c)$")
PAGES = "src/base/pages.c"
# Replaces the functions of libc that a simulated program must not call.
STRAY = "src/sim/sim_stray.c"
STDERR = {"src/base/log.c", "src/base/check.c"}  # messages of an abort
DRIVERS = re.compile(r"src/storage/.*postgres.*\.c$")  # libpq's sockets

PAGE_CALLS = {
    "mmap", "mmap64", "munmap", "mremap", "mprotect", "madvise", "sysconf",
    "getpagesize", "mincore", "mlock",
}
STDERR_CALLS = {"fprintf", "vfprintf", "fputs", "fwrite", "write", "dprintf"}
OS_CALLS = PAGE_CALLS | STDERR_CALLS | set("""
    clock_gettime clock_getres clock_nanosleep clock time gettimeofday
    localtime localtime_r gmtime gmtime_r mktime ftime
    sleep usleep nanosleep alarm setitimer timer_create timerfd_create
    timerfd_settime rand rand_r srand random srandom drand48 lrand48
    arc4random getrandom getentropy
    thrd_create mtx_lock cnd_wait call_once sem_init sem_wait sem_post futex
    syscall sched_yield sched_setaffinity sched_getaffinity gettid
    socket socketpair connect accept accept4 bind listen shutdown send sendto
    sendmsg recv recvfrom recvmsg getsockopt setsockopt getaddrinfo
    open open64 openat creat fopen fdopen freopen close fclose read pread
    readv pwrite writev fread fsync fdatasync ftruncate lseek fseek
    unlink rename mkdir rmdir opendir readdir stat fstat lstat access chmod
    fcntl ioctl flock pipe pipe2 dup dup2 dup3 eventfd
    poll ppoll select pselect
    fork vfork execv execve execvp execvpe execl execlp execle posix_spawn
    posix_spawnp system popen wait waitpid kill raise tgkill signal sigaction
    sigprocmask sigaltstack getpid getenv secure_getenv setenv
    printf puts putchar perror scanf getchar
""".split())
OS_PREFIXES = ("pthread_", "epoll_", "SYS_", "io_uring_", "inotify_", "sem_")

SYSTEM_HEADERS = re.compile(
    r"^(pthread|unistd|time|fcntl|poll|signal|sched|semaphore|threads|spawn"
    r"|netdb|ucontext|sys/.*|linux/.*|netinet/.*|arpa/.*)\.h$")
PAGE_HEADERS = {"sys/mman.h", "unistd.h"}
STRAY_HEADERS = PAGE_HEADERS | {"sys/auxv.h"}  # where the executable lies
STDERR_HEADERS = {"unistd.h"}

MARK = "<!-- layers: tools/layers.txt -->"
PUBLIC_HEADERS = {"stdarg.h", "stdbool.h", "stddef.h", "stdint.h"}

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)
CALL = re.compile(r"(->|\.)?\s*\b([A-Za-z_]\w*)\s*\(")


def blank(match):
    """Comments and literals as spaces, so that line numbers stay right."""
    return re.sub(r"[^\n]", " ", match.group(0))


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def may_include(path, layer, quote, name):
    """None, or why this include is wrong."""
    folder = name.split("/")[0] if "/" in name else None
    if folder == "troupe":
        return None
    if quote == "<":
        if not SYSTEM_HEADERS.match(name) or POSIX_FILES.match(path):
            return None
        if path == PAGES and name in PAGE_HEADERS:
            return None
        if path == STRAY and name in STRAY_HEADERS:
            return None
        if path in STDERR and name in STDERR_HEADERS:
            return None
        if DRIVERS.search(path):
            return None
        return f"<{name}> belongs to {POSIX}"
    if folder is None:
        return f'"{name}" is written without its layer'
    if folder not in LAYERS:
        return f'"{name}": no such layer'
    if folder != layer and folder not in LAYERS[layer]:
        return f'{layer} may not include "{name}"'
    return None


def is_os_call(name):
    return name in OS_CALLS or name.startswith(OS_PREFIXES)


def may_call(path, name):
    if POSIX_FILES.match(path) or DRIVERS.search(path):
        return True
    if path in (PAGES, STRAY) and name in PAGE_CALLS:
        return True
    return path in STDERR and name in STDERR_CALLS


def check_source(root, file, report):
    path = file.relative_to(root).as_posix()
    layer = path.split("/")[1]
    text = file.read_text(encoding="utf-8")
    if layer not in LAYERS:
        report(path, 1, f"src/{layer} is not in the table of layers")
        return
    for match in INCLUDE.finditer(text):
        wrong = may_include(path, layer, *match.groups())
        if wrong:
            report(path, line_of(text, match.start()), wrong)
    if file.suffix == ".S":
        return
    code = TOKEN.sub(blank, text)
    for match in CALL.finditer(code):
        member, name = match.groups()
        if not member and is_os_call(name) and not may_call(path, name):
            report(path, line_of(code, match.start(2)),
                   f"{name}() goes around the world seam")


def check_public(root, file, report):
    path = file.relative_to(root).as_posix()
    text = file.read_text(encoding="utf-8")
    for match in INCLUDE.finditer(text):
        name = match.group(2)
        if name not in PUBLIC_HEADERS and not name.startswith("troupe/"):
            report(path, line_of(text, match.start()),
                   f"a public header may not include {name}")
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M):
        if not re.match(r"(TR_|tr_|TROUPE_)", match.group(1)):
            report(path, line_of(text, match.start()),
                   f"macro {match.group(1)} has no prefix of ours")


def check_page(root, file, report):
    lines = file.read_text(encoding="utf-8").splitlines()
    if MARK not in lines:
        return
    at = lines.index(MARK)
    shown = [line.strip() for line in lines[at + 1:]]
    while shown and not shown[0]:
        shown.pop(0)
    wanted = layers.markdown(LAYERS)
    if shown[:len(wanted)] != wanted or shown[len(wanted):][:1] not in ([], [""]):
        report(file.relative_to(root).as_posix(), at + 1,
               "the table of layers has changed: "
               "tools/check_layers.py --table prints it")


def main():
    arguments = sys.argv[1:]
    if arguments == ["--table"]:
        print("\n".join(layers.markdown(LAYERS)))
        return 0
    root = pathlib.Path(*arguments).resolve() if arguments else layers.ROOT
    wrong = []

    def report(path, line, text):
        wrong.append(f"{path}:{line}: {text}")

    sources = sorted(file for file in root.glob("src/**/*")
                     if file.suffix in (".c", ".h", ".S"))
    headers = sorted(root.glob("include/troupe/*.h"))
    for file in sources:
        check_source(root, file, report)
    for file in headers:
        check_public(root, file, report)
    for file in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")]):
        check_page(root, file, report)
    for text in wrong:
        print(text)
    print(f"layers: {len(sources)} sources, {len(headers)} public headers, "
          f"{len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
