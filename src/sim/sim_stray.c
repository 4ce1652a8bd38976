/*
 * sim_stray.c - calls of the real world that are made inside a simulated one.
 *
 * An object reaches a function of another through a slot of its global offset
 * table. The slots of the functions below are made to lead here; the call is
 * noted, and goes on to what the name means in this process. So nothing has
 * to be linked, production programs are left alone, and where a sanitizer has
 * its own version of a function that one is reached.
 *
 * Not seen are calls that have no slot: those of a static executable, those
 * inside libc, those through a pointer that was taken before, and functions
 * that a sanitizer of clang defines inside the executable itself.
 *
 * Invariant: a slot that leads here stays so, and what it led to is looked up
 * by its name at each call; so there is no state beside the thread's watch,
 * and it does not matter who leads, nor how often. What they lead to must
 * stay, too: the shared library is linked as one that dlclose does not unload.
 *
 * This file stands at the seam, as the real world does: it must name what
 * the rest of the library may not call.
 */
#define _GNU_SOURCE  // dl_iterate_phdr, dladdr1, RTLD_DEFAULT, RTLD_NEXT
#include "sim/sim_stray.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "base/world_posix.h"
#include "core/runtime.h"
#include "system/layers.h"
#include "troupe/system.h"

/* Bytes from the start of the real world's last function that are its own. */
#define WORLD_TAIL 1024

#define HOW_TIME    "tr_now is the world's time, tr_wall its date"
#define HOW_SLEEP   "the whole world stands still; tr_sleep lets time pass"
#define HOW_WAIT    "the whole world stands still; tr_ask and tr_sleep wait"
#define HOW_THREAD  "tr_thread_start makes threads of this world"
#define HOW_PROCESS "no other program takes part in this world"
#define HOW_CHANCE  "tr_random draws from the seed"
#define HOW_SOCKET  "there is no network but that between the nodes"
#define HOW_FILE    "the disk of a node is behind its store"

/*
 * In the order of strcmp. All take at most six integers or pointers and give
 * one back, which both ABIs pass in the same registers, whatever the types.
 */
#define CALLS(X)                                                               \
    X(__open64_2, HOW_FILE)                                                    \
    X(__open_2, HOW_FILE)                                                      \
    X(__poll_chk, HOW_WAIT)                                                    \
    X(accept, HOW_SOCKET)                                                      \
    X(accept4, HOW_SOCKET)                                                     \
    X(arc4random, HOW_CHANCE)                                                  \
    X(arc4random_buf, HOW_CHANCE)                                              \
    X(arc4random_uniform, HOW_CHANCE)                                          \
    X(bind, HOW_SOCKET)                                                        \
    X(clock, HOW_TIME)                                                         \
    X(clock_gettime, HOW_TIME)                                                 \
    X(clock_nanosleep, HOW_SLEEP)                                              \
    X(connect, HOW_SOCKET)                                                     \
    X(creat, HOW_FILE)                                                         \
    X(creat64, HOW_FILE)                                                       \
    X(epoll_pwait, HOW_WAIT)                                                   \
    X(epoll_wait, HOW_WAIT)                                                    \
    X(fopen, HOW_FILE)                                                         \
    X(fopen64, HOW_FILE)                                                       \
    X(fork, HOW_PROCESS)                                                       \
    X(freopen, HOW_FILE)                                                       \
    X(freopen64, HOW_FILE)                                                     \
    X(getaddrinfo, HOW_SOCKET)                                                 \
    X(getentropy, HOW_CHANCE)                                                  \
    X(getrandom, HOW_CHANCE)                                                   \
    X(gettimeofday, HOW_TIME)                                                  \
    X(listen, HOW_SOCKET)                                                      \
    X(lrand48, HOW_CHANCE)                                                     \
    X(mkstemp, HOW_FILE)                                                       \
    X(mkstemp64, HOW_FILE)                                                     \
    X(mrand48, HOW_CHANCE)                                                     \
    X(nanosleep, HOW_SLEEP)                                                    \
    X(open, HOW_FILE)                                                          \
    X(open64, HOW_FILE)                                                        \
    X(openat, HOW_FILE)                                                        \
    X(openat64, HOW_FILE)                                                      \
    X(opendir, HOW_FILE)                                                       \
    X(pause, HOW_WAIT)                                                         \
    X(poll, HOW_WAIT)                                                          \
    X(popen, HOW_PROCESS)                                                      \
    X(posix_spawn, HOW_PROCESS)                                                \
    X(posix_spawnp, HOW_PROCESS)                                               \
    X(ppoll, HOW_WAIT)                                                         \
    X(pselect, HOW_WAIT)                                                       \
    X(pthread_cond_timedwait, HOW_WAIT)                                        \
    X(pthread_cond_wait, HOW_WAIT)                                             \
    X(pthread_create, HOW_THREAD)                                              \
    X(pthread_join, HOW_WAIT)                                                  \
    X(rand, HOW_CHANCE)                                                        \
    X(random, HOW_CHANCE)                                                      \
    X(rename, HOW_FILE)                                                        \
    X(select, HOW_WAIT)                                                        \
    X(sem_timedwait, HOW_WAIT)                                                 \
    X(sem_wait, HOW_WAIT)                                                      \
    X(sleep, HOW_SLEEP)                                                        \
    X(socket, HOW_SOCKET)                                                      \
    X(socketpair, HOW_SOCKET)                                                  \
    X(system, HOW_PROCESS)                                                     \
    X(thrd_create, HOW_THREAD)                                                 \
    X(thrd_sleep, HOW_SLEEP)                                                   \
    X(time, HOW_TIME)                                                          \
    X(timespec_get, HOW_TIME)                                                  \
    X(tmpfile, HOW_FILE)                                                       \
    X(tmpfile64, HOW_FILE)                                                     \
    X(unlink, HOW_FILE)                                                        \
    X(usleep, HOW_SLEEP)

typedef uintptr_t word;
typedef word (*call_fn)(word a, word b, word c, word d, word e, word f);
typedef double (*real_fn)(void);

/* The thread's: whose steps it makes, or NULL. */
static _Thread_local tr_sim *watched;

tr_sim *tri_sim_stray_watch(tr_sim *sim)
{
    tr_sim *before = watched;

    watched = sim;
    return before;
}

/* ---- the functions that slots lead to ---- */

/* Does it lie in the executable? Cheap, unlike dladdr. */
static bool is_executable(const void *at)
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
 * An executable at a fixed address that takes the address of a function of
 * a library gives it an entry of its own, which goes on through the slot: for
 * everybody that is where the function is, and for us the way back to here.
 * Its symbol has that address, and is undefined.
 */
static bool is_way_back(const void *found)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    return is_executable(found) &&
           (dladdr1(found, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 ||
            symbol == NULL || symbol->st_shndx == SHN_UNDEF);
}

static void *meant_by(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);

    if (found != NULL && is_way_back(found)) {
        found = dlsym(RTLD_NEXT, name);
    }
    if (found == NULL || is_way_back(found)) {
        tr_abort("sim", "a function that was called is not there");
    }
    return found;
}

#define TRI_X(name, how)                                                       \
    static word led_##name(word a, word b, word c, word d, word e, word f)     \
    {                                                                          \
        tri_sim_stray_note(#name, __builtin_return_address(0));                \
        return ((call_fn)meant_by(#name))(a, b, c, d, e, f);                   \
    }
CALLS(TRI_X)
#undef TRI_X

/* The one that gives a number of the other kind. */
static double led_drand48(void)
{
    tri_sim_stray_note("drand48", __builtin_return_address(0));
    return ((real_fn)meant_by("drand48"))();
}

typedef struct led {
    const char *name, *how;
    void *fn;
} led;

static const led *led_of(const char *name)
{
    static const led all[] = {
#define TRI_X(call, how) {#call, how, (void *)led_##call},
        CALLS(TRI_X)
#undef TRI_X
    };
    static const led other = {"drand48", HOW_CHANCE, (void *)led_drand48};
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

/* What the dynamic section of an object says. */
typedef struct object {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * table[2];
    size_t size[2];
    ElfW(Addr) relro, relro_end;  // read-only after the start
} object;

/* glibc has put addresses where offsets were, except in the vdso. */
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

/* Makes the page of a slot writable where the start has closed it. */
static bool open_slot(const object *it, ElfW(Addr) at)
{
    ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
    ElfW(Addr) begin = at & ~(page - 1);

    return at < it->relro || at >= it->relro_end ||
           mprotect((void *)begin, page, PROT_READ | PROT_WRITE) == 0;
}

static uint32_t lead_table(const object *it, const ElfW(Rela) * table,
                           size_t size)
{
    uint32_t count = 0;

    for (size_t i = 0; i < size / sizeof(*table); i++) {
        uint64_t type = ELF64_R_TYPE(table[i].r_info);
        if (type != SLOT_CALL && type != SLOT_DATA) {
            continue;
        }
        const ElfW(Sym) *symbol = &it->symbols[ELF64_R_SYM(table[i].r_info)];
        const led *to = led_of(it->strings + symbol->st_name);
        ElfW(Addr) at = it->base + table[i].r_offset;
        // Relaxed, both: whoever calls meanwhile may go either way.
        _Atomic(void *) *slot = (_Atomic(void *) *)at;
        if (to != NULL && symbol->st_shndx == SHN_UNDEF &&
            atomic_load_explicit(slot, memory_order_relaxed) != to->fn &&
            open_slot(it, at)) {
            atomic_store_explicit(slot, to->fn, memory_order_relaxed);
            count++;
        }
    }
    return count;
}

/* libc calls itself, the loader and the sanitizers serve us. */
static bool is_let_alone(const char *path)
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

static int lead_object(struct dl_phdr_info *info, size_t size, void *count)
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
    if (dynamic == NULL || is_let_alone(info->dlpi_name)) {
        return 0;
    }
    read_dynamic(&it, dynamic);
    if (it.symbols != NULL && it.strings != NULL) {
        for (uint32_t i = 0; i < 2; i++) {
            *(uint32_t *)count += lead_table(&it, it.table[i], it.size[i]);
        }
    }
    return 0;
}

uint32_t tri_sim_stray_lead(void)
{
    uint32_t count = 0;

    (void)dl_iterate_phdr(lead_object, &count);
    return count;
}

/* ---- who calls ---- */

/*
 * Only the real world, in base, calls any of these for the library (tests/style
 * looks at the symbols of all objects). A linker keeps the members of one
 * archive together, so what lies between functions of base is the library's,
 * wherever it was linked to.
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
                        (word)tri_world_posix,   (word)tri_posix_err};
    word low = fns[0], high = fns[0];

    for (size_t i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
        low = fns[i] < low ? fns[i] : low;
        high = fns[i] > high ? fns[i] : high;
    }
    return (word)at >= low && (word)at < high + WORLD_TAIL;
}

/* As addr2line takes it: the object, and the address of the call in it. */
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

/* Who runs now, for a person. */
static void add_caller(tr_sim *sim, tri_text *out)
{
    const tri_sim_attached *it = sim->stepped;
    char path[TRI_PATH_MAX];

    if (sim->running != NULL) {
        tri_text_add(out, "thread %s", sim->running->name);
        return;
    }
    if (!sim->stepping || it == NULL) {
        tri_text_add(out, "the invariant");
        return;
    }
    tr_system *sys = it->driven->system;
    // Relaxed, both: the world is one thread.
    tri_cell *cell = atomic_load_explicit(&sys->driven_worker->running,
                                          memory_order_relaxed);
    const tr_type *type = atomic_load_explicit(&sys->driven_worker->handling,
                                               memory_order_relaxed);
    if (it->node->index == TRI_SIM_NOBODY) {
        tri_text_add(out, "a system of the workload");
    } else {
        tri_text_add(out, "node %" PRIu32, it->node->index);
    }
    if (cell == NULL) {
        return;
    }
    tr_ref_path(sys, tri_cell_ref(sys, cell), path, sizeof(path));
    tri_text_add(out, ", actor %s, message %s", path,
                 type != NULL ? type->name : "-");
}

/* ---- what is done about it ---- */

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

static void tell(tr_sim *sim, const tri_sim_stray *it, const char *how,
                 bool library)
{
    char line[2 * TRI_SIM_LINE_MAX];
    tri_text text;

    tri_text_init(&text, line, sizeof(line));
    tri_text_add(&text, "stray call: %s (%s", it->name,
                 library ? "the library, " : "");
    add_caller(sim, &text);
    tri_text_add(&text, "): %s", how);
    if (library || sim->strays_fail) {
        (void)tr_sim_fail(sim, "%s", line);
    } else {
        tri_log_write(TRI_LOG_WARN, TRI_SIM_EPOCH + sim->now, NULL, "sim",
                      line);
    }
}

void tri_sim_stray_note(const char *name, const void *at)
{
    tr_sim *sim = watched;

    if (sim == NULL ||
        !(sim->stepping || sim->running != NULL || sim->in_after)) {
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
    // A run fails by every one of them, whoever has seen the place before.
    if (is_new || library || sim->strays_fail) {
        tell(sim, it, led_of(name)->how, library);
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
