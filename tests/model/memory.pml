/*
 * memory.pml - words of a memory that is not sequentially consistent.
 *
 * Spin interleaves steps, but each of its steps is seen by all at once. Here
 * a write is first on its way: its writer sees it, nobody else does, and the
 * process `wire` lets it land at any later moment, in any order with writes to
 * other words. Reads take what has landed. An exchange waits until the word is
 * quiet, so no other write can come between its two halves.
 *
 * That is a store buffer without order, weaker than x86-64's, and it has the
 * one thing aarch64 does to the code modelled here: a write that is seen later
 * than a read behind it, or later than a write behind it. Where the C source
 * has seq_cst or release, the model has `seen` (nothing that follows can come
 * before it) or waits for `landed`; leaving one out is what a NO_ORDER_x does.
 */
typedef word {
    byte value;   /* what all others see */
    byte coming;  /* what its writer sees */
    byte writer;  /* ME of the process whose write is on its way; 0: quiet */
}

#define ME        (_pid + 1)
#define read(w)   (w.writer == ME -> w.coming : w.value)
#define landed(w) (w.writer != ME)
#define quiet(w)  (w.writer == 0)

/* For use inside atomic { quiet(w) -> ... }: a write, and its landing. */
#define put(w, v) w.coming = (v); w.writer = ME
#define seen(w)   w.value = w.coming; w.coming = 0; w.writer = 0

inline land(w)
{
    d_step { !quiet(w) -> seen(w) }
}
