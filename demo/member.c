/*
 * member.c - makes a system a member of the bank's cluster.
 *
 * The clerk is there before the member joins, so it sees every change.
 */
#include "bank.h"

static tr_err start_client(tr_system *sys, const Bank *bank, tr_ref clerk_ref)
{
    tr_ref ref = tr_spawn(sys, director, .name = "director", .joinable = true,
                          TR_INIT(director, .bank = bank, .clerk = clerk_ref),
                          .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    TR_TRY(tr_ref_err(ref));
    if (bank->audit_only) {
        return TR_OK;
    }
    return tr_ref_err(
        tr_spawn(sys, watchman, .name = "watchman",
                 TR_INIT(watchman, .bank = bank, .clerk = clerk_ref)));
}

tr_err bank_open(tr_system *sys, const Bank *bank, tr_storage *store)
{
    if (!bank->is_client) {
        TR_TRY(bank_host_accounts(sys, bank, store));
    }
    tr_ref clerk_ref =
        tr_spawn(sys, clerk, .name = "clerk", TR_INIT(clerk, .bank = bank));
    TR_TRY(tr_ref_err(clerk_ref));
    TR_TRY(tr_started(sys, clerk_ref, TR_SECONDS(30)));
    TR_TRY(
        tr_cluster_join(sys, .client = bank->is_client, .lease = BANK_LEASE));
    TR_TRY(tr_ask(sys, clerk_ref, NULL, TR_SECONDS(30), Announce,
                  .kind = RECORD_UP));
    return bank->is_client ? start_client(sys, bank, clerk_ref) : TR_OK;
}

tr_ref bank_audit(tr_system *sys, const Bank *bank)
{
    return tr_spawn(
        sys, director, .name = "auditor", .joinable = true,
        TR_INIT(director, .bank = bank, .clerk = tr_lookup(sys, "/user/clerk")),
        .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
}
