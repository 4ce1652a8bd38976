/*
 * await - a handler that waits, in straight-line code.
 *
 * Notice: on_plan waits three times and holds no thread meanwhile: the shops
 * run on the same worker (there is only one here). Two requests are in flight
 * at once because both are sent before the first is awaited. While on_plan is
 * parked its actor handles no other Plan, so *self cannot change; a
 * TR_ON_INTERLEAVE handler sees const state and can still answer.
 */
#include <inttypes.h>
#include <stdio.h>

#include <troupe/troupe.h>

TR_MESSAGE(Price, (int64_t, euros));
TR_REQUEST(Quote, Price, (const char *, city));
TR_REQUEST(Plan, Price, (const char *, city));
TR_MESSAGE(Count, (uint32_t, plans), (uint32_t, done));
TR_REQUEST(HowMany, Count);

/* ---- a shop that answers slowly ---- */

typedef struct Shop {
    int64_t price;
} Shop;

static tr_err on_quote(tr_ctx *ctx, Shop *self, const Quote *m)
{
    TR_TRY(tr_sleep(ctx, TR_MS(50)));
    return tr_reply(ctx, m, .euros = self->price);
}

TR_ACTOR(shop, Shop, TR_ON(Quote, on_quote));

/* ---- the planner ---- */

typedef struct Planner {
    tr_ref flights, hotels;
    uint32_t plans, done;
} Planner;

static tr_err planner_start(tr_ctx *ctx, Planner *self)
{
    self->flights = tr_spawn(ctx, shop, TR_INIT(shop, .price = 120));
    self->hotels = tr_spawn(ctx, shop, TR_INIT(shop, .price = 80));
    return TR_OK;
}

// [snippet: await]
static tr_err on_plan(tr_ctx *ctx, Planner *self, const Plan *m)
{
    self->plans++;
    tr_future flight =
        tr_async(ctx, self->flights, TR_SECONDS(30), Quote, .city = m->city);
    tr_future hotel =
        tr_async(ctx, self->hotels, TR_SECONDS(30), Quote, .city = m->city);
    Price there, stay, back;
    TR_OR_REFUSE(ctx, m, tr_await(ctx, flight, Quote, &there));
    TR_OR_REFUSE(ctx, m, tr_await(ctx, hotel, Quote, &stay));
    TR_OR_REFUSE(ctx, m,
                 tr_ask(ctx, self->flights, &back, TR_SECONDS(30), Quote,
                        .city = "home"));
    self->done++;
    return tr_reply(ctx, m, .euros = there.euros + stay.euros + back.euros);
}
// [end]

// [snippet: interleave]
static tr_err on_how_many(tr_ctx *ctx, const Planner *self, const HowMany *m)
{
    return tr_reply(ctx, m, .plans = self->plans, .done = self->done);
}

TR_ACTOR(planner, Planner, TR_HOOK(pre_start, planner_start),
         TR_ON(Plan, on_plan), TR_ON_INTERLEAVE(HowMany, on_how_many));
// [end]

/* Asks the planner while one of its handlers is parked. */
typedef struct Visitor {
    tr_ref planner;
} Visitor;

static tr_err on_visit(tr_ctx *ctx, Visitor *self, const Plan *m)
{
    tr_future plan =
        tr_async(ctx, self->planner, TR_SECONDS(30), Plan, .city = m->city);
    Count count;
    TR_TRY(tr_ask(ctx, self->planner, &count, TR_SECONDS(30), HowMany));
    printf("meanwhile: %u begun, %u done\n", count.plans, count.done);
    Price price;
    TR_TRY(tr_await(ctx, plan, Plan, &price));
    return tr_reply(ctx, m, .euros = price.euros);
}

TR_ACTOR(visitor, Visitor, TR_ON(Plan, on_visit));

int main(void)
{
    tr_system *sys;
    TR_MUST(tr_system_open(&sys, .workers = 1));
    tr_ref p = tr_spawn(sys, planner, .name = "planner");
    tr_ref v = tr_spawn(sys, visitor, TR_INIT(visitor, .planner = p));
    Price price;
    TR_MUST(tr_ask(sys, v, &price, TR_SECONDS(30), Plan, .city = "Lisbon"));
    printf("Lisbon and back: %" PRId64 " euros\n", price.euros);
    return tr_system_close(sys, 0) != TR_OK;
}
