/*
 * chat server - rooms, and people with bad connections.
 *
 *   30_chat_server tcp://127.0.0.1:7000     and then: nc 127.0.0.1 7000
 *   30_chat_server --seeds 100              simulated
 *
 * The first line of a client is its name. "/join ROOM" goes to another room,
 * "/who" lists the people in this one, "/quit" ends; any other line is said in
 * the room.
 *
 * Notice: a connection is one actor. Its on_run reads, its handler of Line
 * writes, so a client hears others while it is silent, and no line is written
 * into the middle of another one. A room is a topic; nobody waits for a client
 * that does not read, because it is cut off when LINES_MAX lines wait for it.
 * The hall watches the connections, so a name is free again however its owner
 * has left.
 */
#include "chat.h"

#include <stdio.h>
#include <string.h>

enum {
    NAME_SIZE = 24,   // of people and rooms, with the zero
    LINE_SIZE = 512,  // a longer line ends the connection
    LINES_MAX = 256,  // that wait for one client
};

#define SILENCE    TR_MINUTES(5)   // then a client is cut off
#define WRITE_TIME TR_SECONDS(10)  // the same, if it does not read

TR_MESSAGE(Line, (const char *, text));
TR_REQUEST(Enter, tr_none, (const char *, name), (const char *, room));
TR_MESSAGE(People, (const char *, text));
TR_REQUEST(Who, People, (const char *, room));

/* ---- the hall: who is where ---- */

typedef struct Person {
    tr_ref ref;
    char name[NAME_SIZE], room[NAME_SIZE];
} Person;

typedef struct Hall {
    Person *people;
    size_t count;
} Hall;

static Person *find(Hall *self, tr_ref ref)
{
    for (size_t i = 0; i < self->count; i++) {
        if (tr_ref_eq(self->people[i].ref, ref)) return &self->people[i];
    }
    return NULL;
}

static void announce(tr_ctx *ctx, const Person *who, const char *what)
{
    tr_topic_publish(ctx, who->room, Line,
                     .text = tr_textf(ctx, "* %s %s", who->name, what));
}

/* A new person, whose name must be free, or one that changes rooms. */
static tr_err hall_enter(tr_ctx *ctx, Hall *self, const Enter *m)
{
    tr_ref sender = tr_sender(ctx);
    Person *who = find(self, sender);
    for (size_t i = 0; who == NULL && i < self->count; i++) {
        if (strcmp(self->people[i].name, m->name) == 0)
            return tr_refuse(ctx, m, TR_EEXIST, "%s is here already", m->name);
    }
    if (who == NULL) {
        self->people = tr_realloc(ctx, self->people,
                                  (self->count + 1) * sizeof(*self->people));
        who = &self->people[self->count++];
        *who = (Person){.ref = sender};
        snprintf(who->name, sizeof(who->name), "%s", m->name);
        tr_watch(ctx, sender);
    } else {
        announce(ctx, who, "leaves");
    }
    snprintf(who->room, sizeof(who->room), "%s", m->room);
    announce(ctx, who, "is here");
    return tr_reply(ctx, m);
}

static tr_err hall_who(tr_ctx *ctx, Hall *self, const Who *m)
{
    const char *text = "";
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->people[i].room, m->room) == 0)
            text = tr_textf(ctx, "%s %s", text, self->people[i].name);
    }
    return tr_reply(ctx, m, .text = text);
}

static tr_err hall_left(tr_ctx *ctx, Hall *self, const tr_terminated *m)
{
    Person *who = find(self, m->actor);
    if (who == NULL) return TR_OK;
    announce(ctx, who, "leaves");
    *who = self->people[--self->count];
    return TR_OK;
}

TR_ACTOR(hall, Hall, TR_ON(Enter, hall_enter), TR_ON(Who, hall_who),
         TR_ON(tr_terminated, hall_left));

/* ---- a connection ---- */

typedef struct Session {
    tr_stream *stream;  // set by tr_serve
    tr_ref hall;
    char name[NAME_SIZE], room[NAME_SIZE];
} Session;

// [snippet: write]
/* The only place that writes: on_run tells its own actor what to write. */
static tr_err session_line(tr_ctx *ctx, Session *self, const Line *m)
{
    return tr_write(ctx, self->stream, 0, {m->text, strlen(m->text)},
                    {"\n", 1});
}

static void show(tr_ctx *ctx, const char *text)
{
    tr_tell(ctx, tr_self(ctx), Line, .text = text);
}
// [end]

/* Goes to a room; false if the hall refuses, because the name is taken. */
static bool enter(tr_ctx *ctx, Session *self, const char *name,
                  const char *room)
{
    if (tr_ask(ctx, self->hall, NULL, 0, Enter, .name = name, .room = room) !=
        TR_OK) {
        show(ctx, tr_textf(ctx, "* %s", tr_error_reason(ctx)));
        return false;
    }
    if (self->room[0] == '\0')
        snprintf(self->name, sizeof(self->name), "%s", name);
    else
        tr_topic_leave(ctx, self->room);
    snprintf(self->room, sizeof(self->room), "%s", room);
    return true;
}

static bool is_name(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size < NAME_SIZE && strpbrk(text, " :*") == NULL;
}

// [snippet: join]
/* Joins the room's topic. A client that does not read is cut off. */
static tr_err go(tr_ctx *ctx, Session *self, const char *name, const char *room)
{
    if (!is_name(name) || !is_name(room)) {
        show(ctx, "* a name has 1 to 23 bytes, without spaces and ':'");
        return TR_OK;
    }
    if (!enter(ctx, self, name, room)) return TR_OK;
    show(ctx, tr_textf(ctx, "* %s, this is %s", name, room));
    return tr_topic_join_with(ctx, room, .limit = LINES_MAX,
                              .overflow = TR_OVERFLOW_STOP);
}
// [end]

static tr_err obey(tr_ctx *ctx, Session *self, const char *line)
{
    People people;
    if (self->name[0] == '\0') return go(ctx, self, line, "lobby");
    if (strncmp(line, "/join ", 6) == 0)
        return go(ctx, self, self->name, line + 6);
    if (strcmp(line, "/who") == 0) {
        TR_TRY(tr_ask(ctx, self->hall, &people, 0, Who, .room = self->room));
        show(ctx, tr_textf(ctx, "* here:%s", people.text));
    } else if (line[0] == '/') {
        show(ctx, "* /join ROOM, /who or /quit");
    } else {
        tr_topic_publish(ctx, self->room, Line,
                         .text = tr_textf(ctx, "%s: %s", self->name, line));
    }
    return TR_OK;
}

/* Ends the text; what could move the cursor of other clients becomes '?'. */
static void clean(char *line, size_t size)
{
    while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) {
        size--;
    }
    line[size] = '\0';
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) line[i] = '?';
    }
}

// [snippet: read]
static tr_err session_run(tr_ctx *ctx, Session *self)
{
    char line[LINE_SIZE + 1];
    size_t got;
    show(ctx, "* your name?");
    for (;;) {
        tr_err err = tr_read_until(ctx, self->stream, '\n', line, LINE_SIZE,
                                   SILENCE, &got);
        if (err == TR_ELIMIT) show(ctx, "* that line is too long");
        if (err == TR_ELIMIT || (err == TR_OK && got == 0)) return TR_OK;
        TR_TRY(err);
        clean(line, got);
        if (strcmp(line, "/quit") == 0) return TR_OK;
        TR_TRY(obey(ctx, self, line));
        tr_scratch_reset(ctx);  // this loop may go on for days
    }
}
// [end]

TR_ACTOR(session, Session, TR_HOOK(on_run, session_run),
         TR_ON(Line, session_line));

/* ---- the program ---- */

tr_err chat_node(tr_system *sys, uint32_t index, void *user)
{
    Chat *chat = user;
    (void)index;
    tr_ref everybody = tr_spawn(sys, hall, .name = "hall");
    return tr_ref_err(tr_serve(
        sys, chat->address, session, .name = "chat", .bound = chat->bound,
        .write_timeout = WRITE_TIME, TR_INIT(session, .hall = everybody)));
}

int main(int argc, char **argv)
{
    Chat chat = {.address = argc > 1 ? argv[1] : "tcp://127.0.0.1:7000"};
    tr_system *sys;
    if (strncmp(chat.address, "--", 2) == 0) return chat_simulate(argc, argv);
    TR_MUST(tr_system_open(&sys));
    TR_MUST(chat_node(sys, 0, &chat));
    printf("chat at %s\n", chat.bound);
    fflush(stdout);
    tr_err err = tr_system_run(sys);  // until SIGTERM or SIGINT
    return tr_system_close(sys, 0) != TR_OK || err != TR_OK;
}
