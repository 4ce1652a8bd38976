#!/bin/sh
# stray_test.sh - stray calls are counted and still reach their function, in
# programs that are linked in other ways than the tests: at a fixed address
# with function pointers in use, and with the shared library loaded by dlopen
# and closed again. Covers TE5.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${TR_CC:-cc}
failed=0
cd "$work"

cat >fixed.c <<'C'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <troupe/troupe.h>

static long (*volatile pick)(void);
static time_t (*volatile when)(time_t *);
static double (*volatile real)(void);
static int (*volatile start)(pthread_t *, const pthread_attr_t *,
                             void *(*)(void *), void *);

static void *nothing(void *arg)
{
    return arg;
}

static tr_err workload(tr_sim *sim, void *user)
{
    tr_sim_count places[8];
    uint32_t *seen = user;

    (void)!random();
    (void)!time(NULL);
    (void)!drand48();
    *seen = tr_sim_strays(sim, places, 8);
    for (uint32_t i = 0; i < *seen; i++) {
        printf("%.*s\n", (int)strcspn(places[i].name, " "), places[i].name);
    }
    return TR_OK;
}

int main(void)
{
    uint32_t seen = 0;
    tr_sim_options options = {
        .size = sizeof(options),
        .nodes = 1, .workload = workload, .user = &seen};
    pthread_t thread;

    pick = random;
    when = time;
    real = drand48;
    start = pthread_create;
    if (tr_sim_run(&options) != TR_OK || seen != 3) {
        return 1;
    }
    // A call and a call through a pointer reach the same function.
    srandom(1);
    long first = random();
    srandom(1);
    if (first != pick() || time(NULL) < 1 || when(NULL) < 1 ||
        drand48() < 0 || real() < 0) {
        return 2;
    }
    return pthread_create(&thread, NULL, nothing, NULL) != 0 ||
           pthread_join(thread, NULL) != 0;
}
C

cat >loaded.c <<'C'
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include <troupe/troupe.h>

static time_t (*volatile when)(time_t *);

static tr_err workload(tr_sim *sim, void *user)
{
    (void)sim;
    *(time_t *)user = time(NULL);
    return TR_OK;
}

int main(int argc, char **argv)
{
    when = time;
    for (int i = 0; i < 2; i++) {
        time_t seen = 0;
        tr_sim_options options = {
            .size = sizeof(options),
            .nodes = 1, .workload = workload, .user = &seen};
        void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
        if (library == NULL) {
            return 1;
        }
        tr_err (*run)(const tr_sim_options *) =
            (tr_err(*)(const tr_sim_options *))dlsym(library, "tr_sim_run");
        if (run == NULL || run(&options) != TR_OK || seen < 1 ||
            dlclose(library) != 0) {
            return 2;
        }
        printf("closed\n");
        fflush(stdout);
        if (time(NULL) < seen || when(NULL) < seen) {
            return 3;
        }
    }
    return 0;
}
C

# check NAME WANTED COMMAND...: it ends with status 0 and prints the words.
check() {
    name=$1
    wanted=$2
    shift 2
    end=0
    LD_LIBRARY_PATH="$TR_BUILD_DIR" "$@" >out 2>err || end=$?
    said=$(tr '\n' ' ' <out)
    if [ "$end" -ne 0 ] || [ "$said" != "$wanted " ]; then
        echo "$name: ended with $end, said: $said"
        tail -n 5 err
        failed=$((failed + 1))
    fi
}

# build NAME SOURCE FLAGS...
build() {
    name=$1
    source=$2
    shift 2
    "$cc" -std=gnu11 -I"$TR_SOURCE_DIR/include" "$source" -o "$name" "$@" \
        -pthread
}

for address in "-no-pie -fno-pic" "-pie -fPIE"; do
    for bound in lazy now; do
        # shellcheck disable=SC2086
        build static fixed.c $address -Wl,-z,$bound "$TR_BUILD_DIR/libtroupe.a"
        check "the archive, $address, $bound" "random time drand48" ./static
        # shellcheck disable=SC2086
        build shared fixed.c $address -Wl,-z,$bound -L"$TR_BUILD_DIR" -ltroupe
        check "the shared library, $address, $bound" "random time drand48" \
            ./shared
    done
    # shellcheck disable=SC2086
    build loaded loaded.c $address
    check "loaded and closed, $address" "closed closed" \
        ./loaded "$TR_BUILD_DIR/libtroupe.so"
done

echo "stray: $failed programs failed"
[ "$failed" -eq 0 ]
