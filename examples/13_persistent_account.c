/*
 * persistent account - state that outlives its actor and its process.
 *
 * Notice: TR_STATE describes the fields of the state, `.storage` says where it
 * is stored. The state is loaded before pre_start; tr_persist saves first and
 * changes *self only when the save is durable, so the actor is never ahead of
 * its store. A handler that waits for the disk holds no thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <troupe/troupe.h>

TR_MESSAGE(Balance, (int64_t, cents), (const char *, memo));
TR_REQUEST(Deposit, Balance, (int64_t, cents), (const char *, memo));
TR_REQUEST(GetBalance, Balance);
TR_STATE(Account, (int64_t, cents), (const char *, memo));

// [snippet: persist]
static tr_err on_deposit(tr_ctx *ctx, Account *self, const Deposit *m)
{
    if (m->cents <= 0)
        return tr_refuse(ctx, m, TR_EINVAL, "deposit of %" PRId64, m->cents);
    Account next = {.cents = self->cents + m->cents, .memo = m->memo};
    TR_TRY(tr_persist(ctx, self, &next));  // waits; then *self is next
    return tr_reply(ctx, m, .cents = self->cents, .memo = self->memo);
}
// [end]

static tr_err on_balance(tr_ctx *ctx, const Account *self, const GetBalance *m)
{
    return tr_reply(ctx, m, .cents = self->cents, .memo = self->memo);
}

TR_ACTOR(account, Account, TR_ON(Deposit, on_deposit),
         TR_ON_READ(GetBalance, on_balance));

static void show(tr_system *sys, tr_ref ref)
{
    Balance b;
    TR_MUST(tr_ask(sys, ref, &b, TR_SECONDS(30), GetBalance));
    printf("%" PRId64 " cents, %s\n", b.cents, b.memo ? b.memo : "no memo");
    tr_drop(Balance, &b);
}

/* One run of the program: opens the file, deposits, closes everything. */
static void live(const char *file, int64_t cents, const char *memo)
{
    tr_system *sys;
    tr_storage *store;
    // [snippet: open]
    TR_MUST(tr_storage_sqlite(&store, file));
    TR_MUST(tr_system_open(&sys));
    tr_ref ref = tr_spawn(sys, account, .name = "alice", .storage = store);
    // [end]
    show(sys, ref);
    TR_MUST(tr_ask(sys, ref, NULL, TR_SECONDS(30), Deposit, .cents = cents,
                   .memo = memo));
    show(sys, ref);
    // [snippet: close]
    TR_MUST(tr_system_close(sys, 0));
    tr_storage_close(store);  // after the systems that use it
    // [end]
}

int main(void)
{
    char folder[] = "/tmp/troupe-13-XXXXXX", file[64], extra[80];
    if (mkdtemp(folder) == NULL) return 1;
    snprintf(file, sizeof(file), "%s/bank.db", folder);
    puts("first life");
    live(file, 5000, "salary");
    puts("second life");
    live(file, 250, "interest");
    static const char *const parts[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(extra, sizeof(extra), "%s%s", file, parts[i]);
        (void)unlink(extra);
    }
    return rmdir(folder) != 0;
}
