/*
 * sim_stray.c - finds calls of the operating system that are made inside a
 * simulated world.
 *
 * An object of the process calls functions of other objects through slots of
 * its global offset table. The slots of the functions below are redirected to
 * wrappers here, which note the call and go on to the function that the name
 * means in this process. So a program needs no special linking, production
 * programs are not touched, and where a sanitizer has its own version of a
 * function that version is called.
 *
 * Calls without a slot are not seen: those of a static executable, those
 * inside libc, those through a pointer that was taken before, and those of
 * functions that a sanitizer of clang defines inside the executable.
 *
 * Invariant: a redirected slot stays redirected, and the wrapper looks the
 * real function up by name at each call; so there is no state beside the
 * thread's current world, and it does not matter which thread redirects, or
 * how often. The wrappers must stay in memory, too: the shared library is
 * linked so that dlclose does not unload it.
 *
 * Like the real world's files, this one may name functions of the operating
 * system, which the rest of the library may not (tools/check_layers.py).
 */
#define _GNU_SOURCE  // dl_iterate_phdr, dladdr1, RTLD_DEFAULT, RTLD_NEXT
#include "sim/sim_stray.h"

#include <dlfcn.h>
#include <elf.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/world.h"
#include "base/world_posix.h"
#include "core/cell/cell_path.h"
#include "core/system.h"
#include "sim/sim.h"
#include "sim/sim_node.h"
#include "sim/sim_running.h"
#include "troupe/message.h"
#include "troupe/sim.h"

/* Bytes from the start of the last function of base that count as its code. */
#define WORLD_TAIL 1024

#define ADVICE_TIME    "tr_now is the world's time, tr_wall its date"
#define ADVICE_SLEEP   "the whole world stands still; tr_sleep lets time pass"
#define ADVICE_WAIT    "the whole world stands still; tr_ask and tr_sleep wait"
#define ADVICE_THREAD  "tr_thread_start makes threads of this world"
#define ADVICE_PROCESS "no other program takes part in this world"
#define ADVICE_CHANCE  "tr_random draws from the seed"
#define ADVICE_SOCKET  "net.h and udp.h have the network between the nodes"
#define ADVICE_FILE    "file.h reads and writes the disk of a node"

/*
 * Sorted by strcmp. All take at most six integers or pointers and return one;
 * both ABIs pass these in the same registers, whatever their types.
 */
#define CALLS(X)                                                               \
    X(__open64_2, ADVICE_FILE)                                                 \
    X(__open_2, ADVICE_FILE)                                                   \
    X(__poll_chk, ADVICE_WAIT)                                                 \
    X(accept, ADVICE_SOCKET)                                                   \
    X(accept4, ADVICE_SOCKET)                                                  \
    X(arc4random, ADVICE_CHANCE)                                               \
    X(arc4random_buf, ADVICE_CHANCE)                                           \
    X(arc4random_uniform, ADVICE_CHANCE)                                       \
    X(bind, ADVICE_SOCKET)                                                     \
    X(clock, ADVICE_TIME)                                                      \
    X(clock_gettime, ADVICE_TIME)                                              \
    X(clock_nanosleep, ADVICE_SLEEP)                                           \
    X(connect, ADVICE_SOCKET)                                                  \
    X(creat, ADVICE_FILE)                                                      \
    X(creat64, ADVICE_FILE)                                                    \
    X(epoll_pwait, ADVICE_WAIT)                                                \
    X(epoll_wait, ADVICE_WAIT)                                                 \
    X(fopen, ADVICE_FILE)                                                      \
    X(fopen64, ADVICE_FILE)                                                    \
    X(fork, ADVICE_PROCESS)                                                    \
    X(freopen, ADVICE_FILE)                                                    \
    X(freopen64, ADVICE_FILE)                                                  \
    X(getaddrinfo, ADVICE_SOCKET)                                              \
    X(getentropy, ADVICE_CHANCE)                                               \
    X(getrandom, ADVICE_CHANCE)                                                \
    X(gettimeofday, ADVICE_TIME)                                               \
    X(listen, ADVICE_SOCKET)                                                   \
    X(lrand48, ADVICE_CHANCE)                                                  \
    X(mkstemp, ADVICE_FILE)                                                    \
    X(mkstemp64, ADVICE_FILE)                                                  \
    X(mrand48, ADVICE_CHANCE)                                                  \
    X(nanosleep, ADVICE_SLEEP)                                                 \
    X(open, ADVICE_FILE)                                                       \
    X(open64, ADVICE_FILE)                                                     \
    X(openat, ADVICE_FILE)                                                     \
    X(openat64, ADVICE_FILE)                                                   \
    X(opendir, ADVICE_FILE)                                                    \
    X(pause, ADVICE_WAIT)                                                      \
    X(poll, ADVICE_WAIT)                                                       \
    X(popen, ADVICE_PROCESS)                                                   \
    X(posix_spawn, ADVICE_PROCESS)                                             \
    X(posix_spawnp, ADVICE_PROCESS)                                            \
    X(ppoll, ADVICE_WAIT)                                                      \
    X(pselect, ADVICE_WAIT)                                                    \
    X(pthread_cond_timedwait, ADVICE_WAIT)                                     \
    X(pthread_cond_wait, ADVICE_WAIT)                                          \
    X(pthread_create, ADVICE_THREAD)                                           \
    X(pthread_join, ADVICE_WAIT)                                               \
    X(rand, ADVICE_CHANCE)                                                     \
    X(random, ADVICE_CHANCE)                                                   \
    X(rename, ADVICE_FILE)                                                     \
    X(select, ADVICE_WAIT)                                                     \
    X(sem_timedwait, ADVICE_WAIT)                                              \
    X(sem_wait, ADVICE_WAIT)                                                   \
    X(sleep, ADVICE_SLEEP)                                                     \
    X(socket, ADVICE_SOCKET)                                                   \
    X(socketpair, ADVICE_SOCKET)                                               \
    X(system, ADVICE_PROCESS)                                                  \
    X(thrd_create, ADVICE_THREAD)                                              \
    X(thrd_sleep, ADVICE_SLEEP)                                                \
    X(time, ADVICE_TIME)                                                       \
    X(timespec_get, ADVICE_TIME)                                               \
    X(tmpfile, ADVICE_FILE)                                                    \
    X(tmpfile64, ADVICE_FILE)                                                  \
    X(unlink, ADVICE_FILE)                                                     \
    X(usleep, ADVICE_SLEEP)

typedef uintptr_t word;
typedef word (*call_fn)(word a, word b, word c, word d, word e, word f);
typedef double (*real_fn)(void);

/* The world whose steps this thread makes, or NULL. */
static _Thread_local tr_sim *current;

tr_sim *tri_sim_stray_set_world(tr_sim *sim)
{
    tr_sim *before = current;

    current = sim;
    return before;
}

/* ---- wrappers, which the slots are redirected to ---- */

/* Returns true if the address is in the executable. Cheap, unlike dladdr. */
static bool is_in_executable(const void *at)
{
    const ElfW(Phdr) *part = (const void *)getauxval(AT_PHDR);
    size_t count = part != NULL ? getauxval(AT_PHNUM) : 0;
    word base = 0;

    for (size_t i = 0; i < count; i++) {
        if (part[i].p_type == PT_PHDR) {
            base = (word)part - part[i].p_vaddr;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (part[i].p_type == PT_LOAD &&
            (word)at - base - part[i].p_vaddr < part[i].p_memsz) {
            return true;
        }
    }
    return false;
}

/*
 * Returns true for a PLT entry that stands for a function. An executable at a
 * fixed address that takes the address of a library's function makes one: the
 * whole process takes it for the function's address, and it jumps through the
 * slot, so back to our wrapper. Its symbol has that address and is undefined.
 */
static bool is_plt_entry(const void *found)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    return is_in_executable(found) &&
           (dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 ||
            symbol == NULL || symbol->st_shndx == SHN_UNDEF);
}

/* Returns the function that the name means in this process. */
static void *real_function(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    if (found != NULL && is_plt_entry(found)) {
        found = dlsym(RTLD_NEXT, name);
    }
    if (found == NULL || is_plt_entry(found)) {
        tr_abort("sim", "a function that was called is not there");
    }
    return found;
}

#define TRI_X(name, advice)                                                    \
    static word wrap_##name(word a, word b, word c, word d, word e, word f)    \
    {                                                                          \
        tri_sim_stray_note(#name, __builtin_return_address(0));                \
        return ((call_fn)real_function(#name))(a, b, c, d, e, f);              \
    }
CALLS(TRI_X)
#undef TRI_X

/* Apart from the others: it returns a floating-point number. */
static double wrap_drand48(void)
{
    tri_sim_stray_note("drand48", __builtin_return_address(0));
    return ((real_fn)real_function("drand48"))();
}

typedef struct wrapper {
    const char *name, *advice;
    void *fn;
} wrapper;

/* Returns the wrapper of a function, or NULL if it has none. */
static const wrapper *wrapper_of(const char *name)
{
    static const wrapper all[] = {
#define TRI_X(call, advice) {#call, advice, (void *)wrap_##call},
        CALLS(TRI_X)
#undef TRI_X
    };
    static const wrapper other = {"drand48", ADVICE_CHANCE,
                                  (void *)wrap_drand48};
    size_t low = 0, high = sizeof(all) / sizeof(all[0]);

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, all[middle].name);
        if (order == 0) {
            return &all[middle];
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return strcmp(name, other.name) == 0 ? &other : NULL;
}

/* ---- slots ---- */

#if defined(__x86_64__)
enum { SLOT_CALL = R_X86_64_JUMP_SLOT, SLOT_DATA = R_X86_64_GLOB_DAT };
#else
enum { SLOT_CALL = R_AARCH64_JUMP_SLOT, SLOT_DATA = R_AARCH64_GLOB_DAT };
#endif

/* An object of the process, as its dynamic section describes it. */
typedef struct object {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * table[2];
    size_t size[2];
    ElfW(Addr) relro, relro_end;  // read-only after relocation
} object;

/* glibc has replaced offsets by addresses, except in the vdso. */
static const void *address(const object *it, ElfW(Addr) value)
{
    return (const void *)(value < it->base ? value + it->base : value);
}

static void read_dynamic(object *it, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_SYMTAB:
            it->symbols = address(it, entry->d_un.d_ptr);
            break;
        case DT_STRTAB:
            it->strings = address(it, entry->d_un.d_ptr);
            break;
        case DT_RELA:
            it->table[0] = address(it, entry->d_un.d_ptr);
            break;
        case DT_RELASZ:
            it->size[0] = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            it->table[1] = address(it, entry->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            it->size[1] = entry->d_un.d_val;
            break;
        default:
            break;
        }
    }
}

/* Makes the page of a slot writable if it is read-only by now. */
static bool make_writable(const object *it, ElfW(Addr) at)
{
    ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
    ElfW(Addr) begin = at & ~(page - 1);

    return at < it->relro || at >= it->relro_end ||
           mprotect((void *)begin, page, PROT_READ | PROT_WRITE) == 0;
}

/* Redirects the slots of one relocation table; returns how many. */
static uint32_t redirect_table(const object *it, const ElfW(Rela) * table,
                               size_t size)
{
    uint32_t count = 0;

    TRI_CHECK(table != NULL || size == 0);
    for (size_t i = 0; i < size / sizeof(*table); i++) {
        uint64_t type = ELF64_R_TYPE(table[i].r_info);
        if (type != SLOT_CALL && type != SLOT_DATA) {
            continue;
        }
        const ElfW(Sym) *symbol = &it->symbols[ELF64_R_SYM(table[i].r_info)];
        const wrapper *to = wrapper_of(it->strings + symbol->st_name);
        ElfW(Addr) at = it->base + table[i].r_offset;
        // Relaxed, both: a call of another thread may take either value.
        _Atomic(void *) *slot = (_Atomic(void *) *)at;
        if (to != NULL && symbol->st_shndx == SHN_UNDEF &&
            atomic_load_explicit(slot, memory_order_relaxed) != to->fn &&
            make_writable(it, at)) {
            atomic_store_explicit(slot, to->fn, memory_order_relaxed);
            count++;
        }
    }
    return count;
}

/* Returns true for libc, the loader and sanitizers, which stay as they are. */
static bool is_exempt(const char *path)
{
    static const char *const names[] = {"ld-linux", "libc.so",    "libpthread",
                                        "librt.so", "libdl.so",   "libasan",
                                        "libubsan", "libtsan",    "liblsan",
                                        "linux-",   "libclang_rt"};
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strncmp(name, names[i], strlen(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

static int redirect_object(struct dl_phdr_info *info, size_t size, void *count)
{
    object it = {.base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;

    (void)size;
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        ElfW(Addr) begin = it.base + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC) {
            dynamic = (const void *)begin;
        } else if (part->p_type == PT_GNU_RELRO) {
            it.relro = begin;
            it.relro_end = begin + part->p_memsz;
        }
    }
    if (dynamic == NULL || is_exempt(info->dlpi_name)) {
        return 0;
    }
    read_dynamic(&it, dynamic);
    if (it.symbols != NULL && it.strings != NULL) {
        for (uint32_t i = 0; i < 2; i++) {
            *(uint32_t *)count += redirect_table(&it, it.table[i], it.size[i]);
        }
    }
    return 0;
}

uint32_t tri_sim_stray_redirect(void)
{
    uint32_t count = 0;

    (void)dl_iterate_phdr(redirect_object, &count);
    return count;
}

/* ---- the caller ---- */

/*
 * Returns true if the library itself makes the call. In the library only the
 * real world, in base, calls any of these functions (tests/style checks the
 * symbols of all objects). A linker keeps the members of one archive together,
 * so every address between functions of base belongs to the library.
 */
static bool is_library(const void *at)
{
    const tri_world_ops *ops = tri_world_posix()->ops;
    const word fns[] = {(word)ops->mono,         (word)ops->wall,
                        (word)ops->random,       (word)ops->cpus,
                        (word)ops->thread_start, (word)ops->thread_join,
                        (word)ops->park,         (word)ops->poller_new,
                        (word)ops->poller_wait,  (word)ops->poller_alarm,
                        (word)ops->file_open,    (word)ops->file_remove,
                        (word)ops->file_exists,  (word)ops->wait_signal,
                        (word)ops->resolve,      (word)ops->stream_listen,
                        (word)ops->stream_read,  (word)ops->stream_address,
                        (word)ops->udp_open,     (word)ops->udp_receive,
                        (word)ops->signals_open, (word)ops->process_start,
                        (word)tri_world_posix,   (word)tri_posix_err};
    word low = fns[0], high = fns[0];

    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        low = fns[i] < low ? fns[i] : low;
        high = fns[i] > high ? fns[i] : high;
    }
    return (word)at >= low && (word)at < high + WORLD_TAIL;
}

/* Writes the object and the address of the call in it, for addr2line. */
static void place_of(const void *at, char *out, size_t size)
{
    const char *call = (const char *)at - 1;
    struct link_map *map = NULL;
    Dl_info info = {0};

    if (dladdr1(call, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 ||
        map == NULL || info.dli_fname == NULL) {
        snprintf(out, size, "%p", (const void *)call);
        return;
    }
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(out, size, "%s+0x%" PRIxPTR,
             slash != NULL ? slash + 1 : info.dli_fname,
             (word)call - (word)map->l_addr);
}

/* Adds which node, actor and message, or which thread, runs now. */
static void add_caller(tr_sim *sim, tri_text *out)
{
    tri_sim_running now = tri_sim_running_now(sim);
    char path[TRI_PATH_MAX];

    if (now.thread != NULL) {
        tri_text_add(out, "thread %s", now.thread);
        return;
    }
    if (now.sys == NULL) {
        tri_text_add(out, "the invariant");
        return;
    }
    if (now.node->index == TRI_SIM_NO_NODE) {
        tri_text_add(out, "a system of the workload");
    } else {
        tri_text_add(out, "node %" PRIu32, now.node->index);
    }
    if (now.cell == NULL) {
        return;
    }
    tr_ref_path(now.sys, tri_cell_ref(now.sys, now.cell), path, sizeof(path));
    tri_text_add(out, ", actor %s, message %s", path,
                 now.type != NULL ? now.type->name : "-");
}

/* ---- counting and reporting ---- */

static tri_sim_stray *find(const tri_sim_strays *strays, const void *at)
{
    tri_sim_stray *it = strays->first;

    while (it != NULL && it->at != at) {
        it = it->next;
    }
    return it;
}

static tri_sim_stray *add(tri_sim_strays *strays, const void *at,
                          const char *name)
{
    size_t size = strlen(name) + 1;
    tri_sim_stray *it = NULL;

    if (strays->count < TRI_SIM_STRAYS_MAX) {
        it = calloc(1, sizeof(*it) + size);
    }
    if (it == NULL) {
        return NULL;
    }
    it->at = at;
    memcpy(it->name, name, size);
    if (strays->last == NULL) {
        strays->first = it;
    } else {
        strays->last->next = it;
    }
    strays->last = it;
    strays->count++;
    return it;
}

static void report(tr_sim *sim, const tri_sim_stray *it, const char *advice,
                   bool library)
{
    char line[2 * TRI_SIM_LINE_MAX];
    tri_text text;

    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "stray call: %s (%s", it->name,
                 library ? "the library, " : "");
    add_caller(sim, &text);
    tri_text_add(&text, "): %s", advice);
    if (library || sim->strays_fail) {
        (void)tr_sim_fail(sim, "%s", line);
    } else {
        tri_log_write(TRI_LOG_WARN, TRI_SIM_EPOCH + sim->now, NULL, "sim",
                      line);
    }
}

void tri_sim_stray_note(const char *name, const void *at)
{
    tr_sim *sim = current;

    if (sim == NULL ||
        !(sim->stepping || sim->running != NULL || sim->in_after_step)) {
        return;
    }
    tri_sim_strays *strays = sim->strays;
    tri_sim_stray *it = find(strays, at);
    bool is_new = it == NULL;
    bool library = is_library(at);
    if (is_new) {
        char place[128], text[192];
        place_of(at, place, sizeof(place));
        snprintf(text, sizeof(text), "%s %s", name, place);
        it = add(strays, at, text);
    }
    if (it == NULL) {
        strays->unlisted++;
        return;
    }
    it->count++;
    // A call that fails the run does so even if its place is known.
    if (is_new || library || sim->strays_fail) {
        report(sim, it, wrapper_of(name)->advice, library);
    }
}

uint32_t tr_sim_strays(const tr_sim *sim, tr_sim_count *out, uint32_t max)
{
    uint32_t count = 0;

    for (const tri_sim_stray *it = sim->strays->first; it != NULL;
         it = it->next, count++) {
        if (count < max) {
            out[count] = (tr_sim_count){
                .name = it->name, .reached = it->count, .fired = it->count};
        }
    }
    return count;
}

void tri_sim_strays_fini(tri_sim_strays *strays)
{
    while (strays->first != NULL) {
        tri_sim_stray *it = strays->first;
        strays->first = it->next;
        free(it);
    }
    *strays = (tri_sim_strays){0};
}
