/* hello.c - the smallest program that needs the installed library. */
#include <stdio.h>
#include <troupe/troupe.h>

int main(void)
{
    puts(tr_strerror(TR_OK));
    return 0;
}
