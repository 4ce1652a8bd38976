/*
 * err.c - the words for error numbers, and what they prove.
 *
 * Numbers come from other nodes and from programs, so each function takes any
 * number and has an answer for those that the table does not name.
 */
#include "base/check.h"

const char *tr_version(void)
{
    return TR_VERSION;
}

const char *tr_strerror(tr_err err)
{
    switch (err) {
#define X(name, number, text)                                                  \
    case TR_##name:                                                            \
        return text;
        TR_ERRORS(X)
#undef X
    }
    // Through int: which integer type an enum has is the compiler's choice.
    return (int)err > TR_EUSER ? "an error of the program's own"
                               : "unlisted error number";
}

const char *tr_errname(tr_err err)
{
    switch (err) {
#define X(name, number, text)                                                  \
    case TR_##name:                                                            \
        return "TR_" #name;
        TR_ERRORS(X)
#undef X
    }
    return (int)err > TR_EUSER ? "TR_EUSER+" : "TR_?";
}

/*
 * A code is here only if every place that makes it does so before a handler
 * could have seen the request. Not here, though they look alike:
 *   TR_ENOMEM    a handler's own, or the reply found no memory;
 *   TR_ELIMIT    an await may meet its limit after the request was sent;
 *   TR_ESTOPPED, TR_EKILLED, TR_ERESTARTED, TR_ECLOSED
 *                end a wait while the request may be running;
 *   TR_ETIMEDOUT, TR_EUNKNOWN   say nothing about the request.
 * TR_EUNREACHABLE is given only where nothing was sent; a connection that is
 * lost later makes it TR_EUNKNOWN.
 */
bool tr_undelivered(tr_err err)
{
    switch ((int)err) {
    case TR_ENOENT:
    case TR_EFULL:
    case TR_EDEADLOCK:
    case TR_EUNHANDLED:
    case TR_EUNREACHABLE:
    case TR_EFOREIGN:
    case TR_EGONE:
        return true;
    default:
        return false;
    }
}
