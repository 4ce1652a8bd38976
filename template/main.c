/* main.c - signs the guestbook for each argument, or waits for Ctrl-C. */
#include <stdio.h>

#include "guestbook.h"

int main(int argc, char **argv)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_WARN));
    tr_ref book = tr_spawn(sys, guestbook, .name = "guestbook");
    TR_MUST(tr_ref_err(book));

    int status = 0;
    for (int i = 1; i < argc; i++) {
        Thanks thanks;
        tr_err err =
            tr_ask(sys, book, &thanks, TR_SECONDS(30), Sign, .name = argv[i]);
        if (err != TR_OK) {
            fprintf(stderr, "%s\n", tr_error_text(sys));
            status = 1;
            continue;
        }
        printf("%s\n", thanks.text);
        tr_drop(Thanks, &thanks);
    }
    if (argc == 1) {
        puts("open until Ctrl-C; with names as arguments they are signed in");
        if (tr_system_run(sys) != TR_OK) {
            fprintf(stderr, "%s\n", tr_error_text(sys));
        }
    }
    return tr_system_close(sys, 0) != TR_OK ? 1 : status;
}
