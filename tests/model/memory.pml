/*
 * memory.pml - words of a memory that is not sequentially consistent.
 *
 * Spin interleaves steps, but every process sees the effect of a step at once.
 * Here a write is first in flight: only its writer sees it. The process `wire`
 * lets it land at any later moment, in any order relative to writes to other
 * words. Reads return what has landed. An exchange waits until no write to the
 * word is in flight (quiet), so no other write can come between its two
 * halves.
 *
 * This is a store buffer without order, weaker than that of x86-64. It has the
 * reorderings of aarch64 that matter to the code modelled here: a write that
 * becomes visible after a later read or a later write of the same process.
 * Where the C source has seq_cst or release, the model has `seen` (the write
 * lands before anything that follows) or waits for `landed`. Each variant
 * NO_ORDER_x leaves one of these out.
 */
typedef word {
    byte value;   /* what other processes see */
    byte coming;  /* the write in flight, which its writer sees */
    byte writer;  /* ME of the process whose write is in flight; 0: none */
}

#define ME        (_pid + 1)
#define read(w)   (w.writer == ME -> w.coming : w.value)
#define landed(w) (w.writer != ME)
#define quiet(w)  (w.writer == 0)

/* A write, and its landing. Only inside atomic { quiet(w) -> ... }. */
#define put(w, v) w.coming = (v); w.writer = ME
#define seen(w)   w.value = w.coming; w.coming = 0; w.writer = 0

inline land(w)
{
    d_step { !quiet(w) -> seen(w) }
}
