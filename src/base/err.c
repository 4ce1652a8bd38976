/*
 * err.c - names and texts of error numbers, and which errors prove that a
 * request was not delivered.
 *
 * Error numbers come from other nodes and from programs, so each function
 * accepts any number, also one that the table of errors does not have.
 */
#include <stdbool.h>

#include "troupe/base.h"

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
    // As int: the compiler may choose an unsigned type for the enum.
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
 * Returns true for a code that is only ever returned before a handler can have
 * seen the request. These codes are left out on purpose:
 *   TR_ENOMEM    a handler may return it, or the reply found no memory;
 *   TR_ELIMIT    an await may reach its limit after the request was sent;
 *   TR_EDEADLOCK an await may find a cycle after the request was sent, and so
 *                may a handler that forwards the request;
 *   TR_ESTOPPED, TR_EKILLED, TR_ERESTARTED, TR_ECLOSED
 *                end a wait while the request may be running;
 *   TR_ETIMEDOUT, TR_EUNKNOWN
 *                leave open what happened to the request.
 * TR_EUNREACHABLE is returned only if nothing was sent; if a connection is lost
 * later, the error is TR_EUNKNOWN.
 */
bool tr_undelivered(tr_err err)
{
    switch ((int)err) {
    case TR_ENOENT:
    case TR_EFULL:
    case TR_EUNHANDLED:
    case TR_EUNREACHABLE:
    case TR_EFOREIGN:
    case TR_EGONE:
        return true;
    default:
        return false;
    }
}
