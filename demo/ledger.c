/*
 * ledger.c - compares the promises of all members with the accounts.
 *
 * An account numbers its transfers without gaps, so an acknowledged transfer
 * exists if its debtor has reached that number. That it has arrived follows
 * from sums: no transfer is under way, as many were received as sent, and no
 * account got less than what is known to have been sent to it.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

void ledger_init(Ledger *ledger, uint32_t accounts)
{
    *ledger = (Ledger){.accounts = accounts};
    ledger->entries = calloc(accounts, sizeof(Entry));
    if (ledger->entries == NULL) {
        tr_abort(TR_HERE, "out of memory");
    }
}

void ledger_fini(Ledger *ledger)
{
    free(ledger->entries);
    ledger->entries = NULL;
}

/* ---- times ---- */

/* The error of a percentile is at most 6 %. */
static uint32_t bucket_of(tr_nanos nanos)
{
    uint64_t n = nanos < 16 ? 16 : (uint64_t)nanos;
    uint32_t power = 63 - (uint32_t)__builtin_clzll(n);
    return power * 16 + (uint32_t)(n >> (power - 4) & 15);
}

static tr_nanos bucket_start(uint32_t bucket)
{
    return (tr_nanos)((16 + (uint64_t)(bucket % 16)) << (bucket / 16) >> 4);
}

tr_nanos ledger_percentile(const Ledger *ledger, uint32_t percent)
{
    uint64_t left = ledger->acknowledged * percent / 100;
    for (uint32_t i = 0; i < LEDGER_BUCKETS; i++) {
        if (ledger->buckets[i] > left) {
            return bucket_start(i);
        }
        left -= ledger->buckets[i];
    }
    return 0;
}

/* ---- records ---- */

static void take_ack(Ledger *ledger, const Record *r)
{
    uint32_t from = bank_debtor(r->ack.id);
    if (from >= ledger->accounts || r->ack.to >= ledger->accounts) {
        tr_abort(TR_HERE, "an account that is none");
    }
    Entry *debtor = &ledger->entries[from];
    Entry *creditor = &ledger->entries[r->ack.to];
    uint64_t sequence = bank_sequence(r->ack.id);
    debtor->sent = sequence > debtor->sent ? sequence : debtor->sent;
    debtor->paid_out += r->ack.cents;
    creditor->received++;
    creditor->paid_in += r->ack.cents;
    ledger->acknowledged++;
    ledger->buckets[bucket_of(r->ack.took)]++;
}

static void take_view(Ledger *ledger, const View *view)
{
    Audit *audit = &ledger->audit;
    if (view->number >= ledger->accounts) {
        tr_abort(TR_HERE, "an account that is none");
    }
    const Entry *known = &ledger->entries[view->number];
    audit->seen++;
    audit->cents += view->cents;
    audit->owed += view->owed;
    audit->sent += view->sent;
    audit->received += view->received;
    audit->overdrawn += view->cents < 0;
    audit->wrong +=
        view->cents != BANK_START_CENTS + view->paid_in - view->paid_out;
    audit->short_of +=
        view->sent < known->sent || view->received < known->received ||
        view->paid_out < known->paid_out || view->paid_in < known->paid_in;
}

static void take_figures(Figures *now, const Record *r)
{
    *now = (Figures){
        .failures = r->figures.failures,
        .restarts = r->figures.restarts,
        .resumed = r->figures.resumed,
        .refused = r->figures.refused,
        .unknown = r->figures.unknown,
        .activations = r->figures.activations,
        .active = r->figures.active,
    };
}

void ledger_take(Ledger *ledger, uint32_t member, const Record *record)
{
    switch (record->kind) {
    case RECORD_ACK:
        take_ack(ledger, record);
        break;
    case RECORD_FIGURES:
        take_figures(&ledger->now[member], record);
        break;
    case RECORD_UP:
        ledger->up[member] = true;
        break;
    case RECORD_CHANGE:
        break;  // only shown
    case RECORD_ROUND:
        ledger->round_begun = record->round.begun;
        ledger->round_ended = record->round.ended;
        break;
    case RECORD_VIEW:
        take_view(ledger, &record->view);
        break;
    case RECORD_OPEN:
        ledger->open = true;
        ledger->audits++;
        ledger->bad_audits += !ledger_audit_held(ledger);
        break;
    case RECORD_CLOSED:
        ledger->closed = true;
        ledger->missing += record->closed.missing;
        break;
    default:
        tr_abort(TR_HERE, "a record that is none");
    }
}

static Figures sum_of(const Figures *a, const Figures *b)
{
    return (Figures){
        .failures = a->failures + b->failures,
        .restarts = a->restarts + b->restarts,
        .resumed = a->resumed + b->resumed,
        .refused = a->refused + b->refused,
        .unknown = a->unknown + b->unknown,
        .activations = a->activations + b->activations,
        .active = a->active + b->active,
    };
}

Figures ledger_figures(const Ledger *ledger)
{
    Figures sum = ledger->before;
    for (int i = 0; i < BANK_MEMBERS; i++) {
        sum = sum_of(&sum, &ledger->now[i]);
    }
    return sum;
}

void ledger_look_again(Ledger *ledger)
{
    ledger->audit = (Audit){0};
    ledger->open = false;
    ledger->closed = false;
}

void ledger_next(Ledger *ledger, uint32_t member)
{
    ledger->now[member].active = 0;
    ledger->before = sum_of(&ledger->before, &ledger->now[member]);
    ledger->now[member] = (Figures){0};
    ledger->up[member] = false;
    if (member == BANK_CLIENT) {
        ledger_look_again(ledger);
    }
}

/* ---- checking ---- */

int64_t ledger_money(const Ledger *ledger)
{
    return (int64_t)ledger->accounts * BANK_START_CENTS;
}

bool ledger_audit_held(const Ledger *ledger)
{
    const Audit *a = &ledger->audit;
    return a->seen == ledger->accounts && a->cents == ledger_money(ledger) &&
           a->sent == a->received && a->owed == 0 && a->overdrawn == 0 &&
           a->wrong == 0 && a->short_of == 0;
}
