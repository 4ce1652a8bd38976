/*
 * fiber_pool_test.c - pools of stacks: limits, spare stacks and trimming.
 */
#include "base/pages.h"
#include "unit/base/fiber_fixture.h"

static void test_limit_gives_null(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *taken[3];

    fixture_init(&b, job_count);
    tri_fiber_pool_init(&b.pool, 0, 3, &b.live, fixture_entry, &b);
    take_all(&b.pool, taken, 3);
    EXPECT(tri_fiber_take(&b.pool) == NULL);
    EXPECT(b.live == 3);
    tri_fiber_give(&b.pool, taken[2]);
    taken[2] = tri_fiber_take(&b.pool);
    EXPECT(taken[2] != NULL);
    EXPECT(tri_fiber_take(&b.pool) == NULL);
    give_all(&b.pool, taken, 3);
    fixture_fini(&b);
}

static void test_limit_is_shared_between_pools(void **state)
{
    (void)state;
    fixture b;
    tri_fiber_pool other;
    tri_fiber *taken[8];
    const uint32_t max = TRI_COUNT_OF(taken);

    fixture_init(&b, job_count);
    tri_fiber_pool_init(&b.pool, 0, max, &b.live, fixture_entry, &b);
    tri_fiber_pool_init(&other, 0, max, &b.live, fixture_entry, &b);
    take_all(&b.pool, taken, max);
    EXPECT(tri_fiber_take(&other) == NULL);
    give_all(&b.pool, taken, max);
    // Near the limit a pool keeps only TRI_FIBER_SPARE_MIN spare stacks.
    EXPECT(b.live == TRI_FIBER_SPARE_MIN);
    take_all(&other, taken, max - TRI_FIBER_SPARE_MIN);
    EXPECT(tri_fiber_take(&other) == NULL);
    give_all(&other, taken, max - TRI_FIBER_SPARE_MIN);
    tri_fiber_pool_fini(&other);
    fixture_fini(&b);
}

static void test_max_for_leaves_room_for_n_stacks(void **state)
{
    (void)state;
    enum { MANY = 3 * TRI_FIBER_SPARE_WARM };
    fixture b;
    tri_fiber_pool other;
    tri_fiber *taken[MANY];
    uint32_t max = tri_fiber_max_for(MANY, 2);

    fixture_init(&b, job_count);
    tri_fiber_pool_init(&b.pool, 0, max, &b.live, fixture_entry, &b);
    tri_fiber_pool_init(&other, 0, max, &b.live, fixture_entry, &b);
    take_all(&b.pool, taken, MANY);
    give_all(&b.pool, taken, MANY);
    EXPECT(b.live >= TRI_FIBER_SPARE_WARM);
    take_all(&other, taken, MANY);
    give_all(&other, taken, MANY);
    tri_fiber_pool_fini(&other);
    fixture_fini(&b);
}

static void test_refused_memory_gives_null(void **state)
{
    (void)state;
    fixture b;

    fixture_init(&b, job_count);
    tri_fiber_pool_init(&b.pool, SIZE_MAX / 4, PLENTY, &b.live, fixture_entry,
                        &b);
    EXPECT(tri_fiber_take(&b.pool) == NULL);
    EXPECT(b.live == 0);
    EXPECT(b.pool.taken_count == 0);
    EXPECT(b.pool.mapped_count == 0);
    fixture_fini(&b);
}

static void job_three_steps(fixture *b)
{
    b->steps = 1;
    suspend(b);
    b->steps = 2;
    suspend(b);
    b->steps = 3;
}

static void test_given_fiber_resumes_where_it_was(void **state)
{
    (void)state;
    fixture b;

    fixture_init(&b, job_three_steps);
    tri_fiber *first = tri_fiber_take(&b.pool);

    for (uint64_t round = 0; round < 9; round++) {
        tri_fiber *fiber = round == 0 ? first : tri_fiber_take(&b.pool);

        EXPECT(fiber == first && fiber != NULL);
        EXPECT(fiber->next == NULL);
        resume(&b, fiber);
        EXPECT(b.steps == round % 3 + 1);
        tri_fiber_give(&b.pool, fiber);
    }
    EXPECT(b.pool.mapped_count == 1);
    fixture_fini(&b);
}

static void test_cycles_map_nothing_new(void **state)
{
    (void)state;
    fixture b;

    fixture_init(&b, job_count);
    for (int i = 0; i < 1000000; i++) {
        tri_fiber *one = tri_fiber_take(&b.pool);
        tri_fiber *two = tri_fiber_take(&b.pool);

        TRI_CHECK(one != NULL && two != NULL);
        if (i % 64 == 0) {
            resume(&b, two);
        }
        tri_fiber_give(&b.pool, one);
        tri_fiber_give(&b.pool, two);
    }
    EXPECT(b.steps == 1000000 / 64);
    EXPECT(b.pool.mapped_count == 2);
    EXPECT(b.live == 2);
    fixture_fini(&b);
}

static void test_spare_stacks_are_bounded(void **state)
{
    (void)state;
    enum { MANY = 3 * TRI_FIBER_SPARE_MAX };
    fixture b;
    tri_fiber *taken[MANY];

    fixture_init(&b, job_count);
    for (int round = 0; round < 3; round++) {
        take_all(&b.pool, taken, MANY);
        for (int i = 0; i < MANY; i++) {
            resume(&b, taken[i]);
        }
        EXPECT(b.live == MANY);
        give_all(&b.pool, taken, MANY);
        EXPECT(b.pool.spare_count == TRI_FIBER_SPARE_MAX);
        EXPECT(b.live == TRI_FIBER_SPARE_MAX);
    }
    EXPECT(b.steps == 3 * MANY);
    fixture_fini(&b);
}

static void test_trim_unmaps_unused_stacks(void **state)
{
    (void)state;
    enum { MANY = TRI_FIBER_SPARE_MAX, SOME = MANY / 2 };
    fixture b;
    tri_fiber *taken[MANY];

    fixture_init(&b, job_count);
    take_all(&b.pool, taken, MANY);
    give_all(&b.pool, taken, MANY);
    tri_fiber_pool_trim(&b.pool);  // all were in use since the last trim
    EXPECT(b.live == MANY);
    take_all(&b.pool, taken, SOME);
    give_all(&b.pool, taken, SOME);
    for (int i = 0; i < MANY; i++) {
        tri_fiber_pool_trim(&b.pool);
        EXPECT(b.live >= (i == 0 ? SOME : TRI_FIBER_SPARE_WARM));
        EXPECT(b.live == b.pool.spare_count);
    }
    EXPECT(b.live == TRI_FIBER_SPARE_WARM);
    take_all(&b.pool, taken, MANY);  // spare ones, then new ones
    for (int i = 0; i < MANY; i++) {
        resume(&b, taken[i]);
    }
    give_all(&b.pool, taken, MANY);
    EXPECT(b.steps == MANY);
    fixture_fini(&b);
}

/*
 * Suspends with an array that ASan surrounds with red zones: it has a variable
 * size, because arrays of fixed size are on the fake stack.
 */
static void job_leave_red_zones(fixture *b)
{
    volatile size_t size = 300;
    char *array = __builtin_alloca(size);

    memset(array, 2, size);
    suspend(b);
    b->steps += (uint64_t)array[size - 1];
}

static uint64_t address_space_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    EXPECT(file != NULL);
    EXPECT(fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return pages;
}

static void test_unmapping_frees_all_memory(void **state)
{
    (void)state;
    fixture b;
    size_t size = 0;
    uint64_t before = 0;

    for (int i = 0; i < 250; i++) {
        if (i == 50) {  // libraries have made their one-time allocations
            before = address_space_pages();
        }
        tri_fiber *fiber = fixture_init_one(&b, job_leave_red_zones);

        size = TRI_FIBER_GUARD_SIZE + b.pool.stack_size;
        resume(&b, fiber);
        fixture_fini_one(&b, fiber);
    }
    // 200 stacks take 64 MB; the fake stacks of ASan would take much more.
    EXPECT((address_space_pages() - before) * tri_page_size() < 32 << 20);

    // The kernel probably maps the same addresses again.
    char *at = tri_pages_map(size);

    EXPECT(at != NULL);
    for (size_t i = 0; i < size; i++) {
        at[i] = 1;
    }
    tri_pages_unmap(at, size);
}

int main(void)
{
    const bare_test tests[] = {
        TEST(test_limit_gives_null),
        TEST(test_limit_is_shared_between_pools),
        TEST(test_refused_memory_gives_null),
        TEST(test_given_fiber_resumes_where_it_was),
        TEST(test_cycles_map_nothing_new),
        TEST(test_max_for_leaves_room_for_n_stacks),
        TEST(test_spare_stacks_are_bounded),
        TEST(test_trim_unmaps_unused_stacks),
        TEST(test_unmapping_frees_all_memory),
    };

    return run_all("base/fiber_pool", tests, TRI_COUNT_OF(tests));
}
