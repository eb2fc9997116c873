/* The base layer on the real environment: errors, log, buffers, UUIDs, sizes, names, quiescence, threads and
 * locks. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fs/base/buf.h"
#include "fs/base/env.h"
#include "fs/base/error.h"
#include "fs/base/log.h"
#include "fs/base/quiesce.h"
#include "fs/base/size.h"
#include "fs/base/uuid.h"

#define KIB ((uint64_t)1 << 10)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)
#define MS_NS 1000000ull

/* --- errors and log --------------------------------------------------------------------------- */

Test(error, set)
{
    struct sfs_error e = {0};

    cr_assert_eq(sfs_error_set(NULL, -EIO, "%d", 1), -EIO);
    cr_assert_eq(sfs_error_set(&e, -ENOSPC, "disk %s is full", "a"), -ENOSPC);
    cr_assert_eq(e.code, -ENOSPC);
    cr_assert_str_eq(e.text, "disk a is full");
    /* Words put before what a lower layer said. */
    cr_assert_eq(sfs_error_set(&e, -EIO, "pool p: %s", e.text), -EIO);
    cr_assert_eq(e.code, -EIO);
    cr_assert_str_eq(e.text, "pool p: disk a is full");
    sfs_error_set(&e, -EIO, "%*s", 5000, "x");
    cr_assert_eq(strlen(e.text), sizeof(e.text) - 1);
}

Test(error, a_bug_aborts, .signal = SIGABRT)
{
    volatile int one = 1;

    SFS_ASSERT(one == 2);
}

struct said {
    unsigned times;
    enum sfs_log_level level;
    char text[200];
};

static void record(enum sfs_log_level level, const char *text, void *ctx)
{
    struct said *s = ctx;

    s->times++;
    s->level = level;
    snprintf(s->text, sizeof(s->text), "%s", text);
}

Test(log, sink_and_level)
{
    struct said s = {0};

    sfs_log_set_sink(record, &s);
    errno = EDOM;
    sfs_log(SFS_LOG_WARN, "%d disks", 3);
    cr_assert_eq(errno, EDOM);
    cr_assert_eq(s.times, 1);
    cr_assert_eq(s.level, SFS_LOG_WARN);
    cr_assert_str_eq(s.text, "3 disks");
    sfs_log(SFS_LOG_DEBUG, "not by default");
    cr_assert_eq(s.times, 1);
    sfs_log_set_level(SFS_LOG_DEBUG);
    sfs_log(SFS_LOG_DEBUG, "now");
    cr_assert_eq(s.times, 2);
    sfs_log_set_level(SFS_LOG_ERROR);
    sfs_log(SFS_LOG_WARN, "no more");
    cr_assert_eq(s.times, 2);
}

/* --- buffers ---------------------------------------------------------------------------------- */

Test(buf, aligned_counted_and_kept)
{
    static const size_t lens[] = {0, 1, 4096, 4097, 65536, 1 << 20, 4 << 20, (4 << 20) + 1, 9 << 20};

    for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        struct sfs_buf *b = sfs_buf_new(lens[i]);
        uint8_t *data = b->data;

        cr_assert_eq((uintptr_t)b->data % 4096, 0);
        cr_assert_eq(b->len, lens[i]);
        cr_assert_geq(b->cap, lens[i]);
        memset(b->data, 0xa5, b->cap);
        cr_assert_eq(sfs_buf_ref(b), b);
        sfs_buf_unref(b);
        cr_assert_eq(b->data[0], 0xa5); /* still ours */
        sfs_buf_unref(b);
        b = sfs_buf_new(lens[i]);
        if (lens[i] <= 4 << 20)
            cr_assert_eq(b->data, data, "the same memory again");
        memset(b->data, 1, b->cap);
        sfs_buf_unref(b);
    }
    sfs_buf_unref(NULL);
    cr_assert_null(sfs_buf_new(SIZE_MAX));
    sfs_buf_trim_pool();
}

static void churn_buffers(void *arg)
{
    struct sfs_buf *held[16] = {NULL};
    unsigned x = (unsigned)(uintptr_t)arg;

    for (int i = 0; i < 3000; i++) {
        unsigned slot = (x = x * 1103515245u + 12345) >> 16 & 15;

        sfs_buf_unref(held[slot]);
        held[slot] = sfs_buf_new((size_t)4096 << (x >> 24 & 7));
        SFS_ASSERT(held[slot]);
        memset(held[slot]->data, (int)x, 64);
    }
    for (int i = 0; i < 16; i++)
        sfs_buf_unref(held[i]);
}

Test(buf, from_many_threads)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_thread *t[4];

    for (uintptr_t i = 0; i < 4; i++)
        cr_assert_eq(sfs_thread_start(env, "buffers", churn_buffers, (void *)i, &t[i]), 0);
    for (int i = 0; i < 4; i++)
        sfs_thread_join(t[i]);
    sfs_buf_trim_pool();
    sfs_env_free(env);
}

Test(buf, one_unref_too_many, .signal = SIGABRT)
{
    struct sfs_buf b = {.refs = 0};

    sfs_buf_unref(&b);
}

/* --- UUIDs ------------------------------------------------------------------------------------ */

Test(uuid, all)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_uuid a, b, null = {{0}};
    char text[SFS_UUID_STRLEN];

    sfs_uuid_generate(env, &a);
    sfs_uuid_generate(env, &b);
    cr_assert_not(sfs_uuid_equal(&a, &b));
    cr_assert_not(sfs_uuid_is_null(&a));
    cr_assert(sfs_uuid_is_null(&null));
    sfs_uuid_format(&a, text);
    cr_assert_eq(text[14], '4');
    cr_assert(strchr("89ab", text[19]));
    cr_assert_eq(sfs_uuid_parse(text, &b), 0);
    cr_assert(sfs_uuid_equal(&a, &b));
    cr_assert_eq(sfs_uuid_parse("6BA7B810-9DAD-41d1-80b4-00c04fd430c8", &a), 0);
    cr_assert_eq(a.b[0], 0x6b);
    cr_assert_eq(a.b[15], 0xc8);
    b = a;
    cr_assert_eq(sfs_uuid_parse("6ba7b810-9dad-41d1-80b4-00c04fd430c", &a), -EINVAL);
    cr_assert_eq(sfs_uuid_parse("6ba7b810-9dad-41d1-80b4-00c04fd430c8x", &a), -EINVAL);
    cr_assert_eq(sfs_uuid_parse("6ba7b810x9dad-41d1-80b4-00c04fd430c8", &a), -EINVAL);
    cr_assert_eq(sfs_uuid_parse("", &a), -EINVAL);
    cr_assert(sfs_uuid_equal(&a, &b), "left alone by a failure");
    sfs_env_free(env);
}

/* --- sizes, durations, names ------------------------------------------------------------------ */

Test(size, parse)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"17B", 17},
        {"4K", 4 * KIB},
        {"4k", 4 * KIB},
        {"4KiB", 4 * KIB},
        {"4 kib", 4 * KIB},
        {"4KB", 4000},
        {"3MB", 3000000},
        {"1T", TIB},
        {"1.5T", TIB + TIB / 2},
        {"0.5K", 512},
        {"0.3K", 307},
        {"1.5GB", 1500000000},
        {"500GB", 500000000000},
        {"2PiB", 2048 * TIB},
        {"7E", 7ull << 60},
        {"7.9999999999999999E", 9223372036854775692ull},
        {"9223372036854775807", INT64_MAX},
        {"1.99999999999999999999999999K", 2047},
        {"0000000000000000000000000001", 1},
    };
    static const char *const bad[] = {"",     " ",    "K",  "-1",  "+1",   "1.",   ".5K", "1.5",
                                      "1.5B", "1,5T", "4X", "4KK", "0x10", "4 K ", "1e3", "NaN"};
    static const char *const large[] = {"8E", "9223372036854775808", "16E", "18446744073709551616",
                                        "99999999999999999999999999999999999999999T"};
    struct sfs_error err;
    uint64_t out;

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(sfs_size_parse(good[i].text, "--size", &out, &err), 0, "%s", good[i].text);
        cr_assert_eq(out, good[i].bytes, "%s: %lu", good[i].text, out);
    }
    out = 42;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(sfs_size_parse(bad[i], "--size", &out, &err), -EINVAL, "%s", bad[i]);
        cr_assert(strstr(err.text, "--size") == err.text && strstr(err.text, bad[i]));
    }
    for (unsigned i = 0; i < sizeof(large) / sizeof(large[0]); i++)
        cr_assert_eq(sfs_size_parse(large[i], "--size", &out, NULL), -ERANGE, "%s", large[i]);
    cr_assert_eq(out, 42);
}

Test(size, format)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } table[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {TIB + TIB / 2, "1.50 TiB"},
        {GIB - 1, "1.00 GiB"},
        {GIB - 6 * KIB, "1023.99 MiB"},
        {1000 * KIB, "1000.00 KiB"},
        {UINT64_MAX, "16.00 EiB"},
        {1029, "1.00 KiB"},
        {1030, "1.01 KiB"},
    };
    char out[16];

    for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        cr_assert_str_eq(sfs_size_format(table[i].bytes, out), table[i].text);
}

Test(size, duration)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"0", 0},          {"5", 5000},       {"30s", 30000},    {"5m", 300000},
                {"1h", 3600000},   {"2d", 172800000}, {"1w", 604800000}, {"500ms", 500},
                {"1.5h", 5400000}, {"0.25", 250},     {"5 min", 300000}};
    static const char *const bad[] = {"", "m", "-5m", "5y", "1h30m", "5M5"};
    struct sfs_error err;
    uint64_t ns;

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(sfs_duration_parse(good[i].text, "delay", &ns, NULL), 0, "%s", good[i].text);
        cr_assert_eq(ns, good[i].ms * MS_NS, "%s", good[i].text);
    }
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(sfs_duration_parse(bad[i], "delay", &ns, &err), -EINVAL, "%s", bad[i]);
    cr_assert(strstr(err.text, "delay"));
    cr_assert_eq(sfs_duration_parse("300000d", "delay", &ns, NULL), -ERANGE);
}

Test(size, names)
{
    static const char *const good[] = {"a",
                                       "tank",
                                       "Tank-2_x.y+z",
                                       "9",
                                       "_",
                                       "+",
                                       "caf\xc3\xa9",
                                       "\xe6\xb0\xb4",
                                       "\xf0\x9f\x90\x9f",
                                       "0123456789012345678901234567890123456789012345678901234567890123"};
    static const char *const bad[] = {
        "",
        "-a",
        ".",
        "..",
        ".a",
        "a/b",
        "a b",
        "a\nb",
        "a\x7f",
        "a\x01",
        "a:b",
        "a\\b",
        "a%b",
        "a*",
        "\xc3",
        "\xc3(",
        "\x80",
        "\xc0\xaf",
        "\xe0\x80\xaf",
        "\xed\xa0\x80",
        "\xf4\x90\x80\x80",
        "\xf8\x88\x80\x80\x80",
        "\xc2\x85",
        "\xff",
        "01234567890123456789012345678901234567890123456789012345678901234",
    };
    struct sfs_error err;

    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_assert_eq(sfs_name_check(good[i], "pool name", &err), 0, "%s", good[i]);
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(sfs_name_check(bad[i], "pool name", &err), -EINVAL, "number %u", i);
        cr_assert(strstr(err.text, "pool name") == err.text);
        for (const char *p = err.text; *p; p++)
            cr_assert_geq((unsigned char)*p, 0x20, "no control characters on a terminal");
    }
}

/* --- quiescence ------------------------------------------------------------------------------- */

Test(quiesce, waits_for_earlier_readers_only)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_quiesce *q = sfs_quiesce_new(env);
    uint64_t none = sfs_quiesce_ticket(q), a, b, t1, t2, late;

    cr_assert(sfs_quiesce_passed(q, none));
    a = sfs_quiesce_enter(q);
    cr_assert(sfs_quiesce_passed(q, none), "a reader from after the ticket doesn't count");
    t1 = sfs_quiesce_ticket(q);
    b = sfs_quiesce_enter(q);
    t2 = sfs_quiesce_ticket(q);
    late = sfs_quiesce_enter(q);
    cr_assert_not(sfs_quiesce_passed(q, t1));
    cr_assert_not(sfs_quiesce_passed(q, t2));
    sfs_quiesce_exit(q, b);
    cr_assert_not(sfs_quiesce_passed(q, t2), "a is still inside");
    sfs_quiesce_exit(q, a);
    cr_assert(sfs_quiesce_passed(q, t1));
    cr_assert(sfs_quiesce_passed(q, t2));
    sfs_quiesce_exit(q, late);
    sfs_quiesce_free(q);
    sfs_quiesce_free(NULL);
    sfs_env_free(env);
}

/* Against a plain model, with far more tickets under one slow reader than there are generations. */
Test(quiesce, model)
{
    enum { READERS = 40, TICKETS = 2000 };
    struct sfs_env *env = sfs_env_new_sim(8);
    struct sfs_quiesce *q = sfs_quiesce_new(env);
    struct {
        bool in;
        uint64_t token, since;
    } readers[READERS] = {{0}};
    uint64_t tickets[TICKETS], at[TICKETS], clock = 0;
    unsigned n = 0, passed = 0;

    while (n < TICKETS) {
        unsigned i = (unsigned)(sfs_env_rand(env) % READERS);

        clock++;
        if (sfs_env_rand(env) % 3 == 0) {
            tickets[n] = sfs_quiesce_ticket(q);
            at[n++] = clock;
        } else if (!readers[i].in) {
            readers[i].in = true;
            readers[i].since = clock;
            readers[i].token = sfs_quiesce_enter(q);
        } else if (i > 0 || n % 700 == 699) { /* number 0 stays for long */
            readers[i].in = false;
            sfs_quiesce_exit(q, readers[i].token);
        }
        for (unsigned look = 0; n > 0 && look < 4; look++) {
            unsigned t = (unsigned)(sfs_env_rand(env) % n);

            if (!sfs_quiesce_passed(q, tickets[t]))
                continue;
            passed++;
            for (unsigned r = 0; r < READERS; r++)
                cr_assert_not(readers[r].in && readers[r].since < at[t],
                              "reader %u from before ticket %u is inside", r, t);
        }
    }
    cr_assert_gt(passed, 100);
    for (unsigned r = 0; r < READERS; r++) {
        if (readers[r].in)
            sfs_quiesce_exit(q, readers[r].token);
    }
    for (unsigned t = 0; t < n; t++)
        cr_assert(sfs_quiesce_passed(q, tickets[t]));
    sfs_quiesce_free(q);
    sfs_env_free(env);
}

struct reuse {
    struct sfs_env *env;
    struct sfs_quiesce *q;
    int *slots[2]; /* atomic: the slot that is current, by index `current` */
    int current, stop;
};

static void read_slots(void *arg)
{
    struct reuse *r = arg;

    while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
        uint64_t token = sfs_quiesce_enter(r->q);
        int *slot = r->slots[__atomic_load_n(&r->current, __ATOMIC_ACQUIRE)];

        for (int i = 0; i < 20; i++)
            SFS_ASSERT(*slot == 1); /* plain reads: TSan sees a writer that didn't wait, too */
        sfs_quiesce_exit(r->q, token);
    }
}

/* A slot taken out of use is scribbled over once its ticket has passed. */
Test(quiesce, reuse_under_readers)
{
    int a = 1, b = 1;
    struct reuse r = {.env = sfs_env_new_real(), .slots = {&a, &b}};
    struct sfs_thread *t[3];

    r.q = sfs_quiesce_new(r.env);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(sfs_thread_start(r.env, "reader", read_slots, &r, &t[i]), 0);
    for (int i = 0; i < 300; i++) {
        int old = r.current;
        uint64_t ticket;

        __atomic_store_n(&r.current, !old, __ATOMIC_RELEASE);
        ticket = sfs_quiesce_ticket(r.q);
        while (!sfs_quiesce_passed(r.q, ticket))
            sfs_env_sleep_ns(r.env, 10000);
        *r.slots[old] = 0;
        *r.slots[old] = 1;
    }
    __atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++)
        sfs_thread_join(t[i]);
    sfs_quiesce_free(r.q);
    sfs_env_free(r.env);
}

Test(quiesce, free_with_a_reader_inside, .signal = SIGABRT)
{
    struct sfs_env *env = sfs_env_new_real();
    struct sfs_quiesce *q = sfs_quiesce_new(env);

    sfs_quiesce_enter(q);
    sfs_quiesce_free(q);
}

/* --- the real environment --------------------------------------------------------------------- */

struct shared {
    struct sfs_env *env;
    struct sfs_mutex m;
    struct sfs_cond c;
    struct sfs_rwlock l;
    int counter, waiting, pair[2];
};

static void shared_init(struct shared *s)
{
    memset(s, 0, sizeof(*s));
    s->env = sfs_env_new_real();
    sfs_mutex_init(&s->m, s->env, SFS_RANK_DISK);
    sfs_cond_init(&s->c, s->env);
    sfs_rwlock_init(&s->l, s->env, SFS_RANK_GATE);
}

static void shared_destroy(struct shared *s)
{
    sfs_rwlock_destroy(&s->l);
    sfs_cond_destroy(&s->c);
    sfs_mutex_destroy(&s->m);
    sfs_env_free(s->env);
}

static void work(void *arg)
{
    struct shared *s = arg;

    for (int i = 0; i < 2000; i++) {
        if (i % 8 == 0) {
            sfs_rwlock_wrlock(&s->l);
            s->pair[0]++;
            s->pair[1]++;
            sfs_rwlock_wrunlock(&s->l);
        } else {
            sfs_rwlock_rdlock(&s->l);
            SFS_ASSERT(s->pair[0] == s->pair[1]);
            sfs_mutex_lock(&s->m); /* a higher rank */
            s->counter++;
            sfs_mutex_unlock(&s->m);
            sfs_rwlock_rdunlock(&s->l);
        }
    }
    sfs_mutex_lock(&s->m);
    s->waiting++;
    sfs_cond_broadcast(&s->c);
    while (s->waiting < 4)
        sfs_cond_wait(&s->c, &s->m);
    sfs_mutex_assert_held(&s->m);
    sfs_mutex_unlock(&s->m);
}

Test(env_real, threads_and_locks)
{
    struct sfs_thread *t[4];
    struct shared s;

    shared_init(&s);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(sfs_thread_start(s.env, "a name of more than fifteen bytes", work, &s, &t[i]), 0);
    for (int i = 0; i < 4; i++)
        sfs_thread_join(t[i]);
    cr_assert_eq(s.counter, 4 * 1750);
    cr_assert_eq(s.pair[0], 4 * 250);
    cr_assert_not(sfs_env_is_sim(s.env));
    shared_destroy(&s);
}

Test(env_real, time)
{
    struct shared s;
    uint64_t start;

    shared_init(&s);
    start = sfs_env_mono_ns(s.env);
    sfs_env_sleep_ns(s.env, 3 * MS_NS);
    cr_assert_geq(sfs_env_mono_ns(s.env) - start, 3 * MS_NS);

    sfs_mutex_lock(&s.m);
    start = sfs_env_mono_ns(s.env);
    while (sfs_cond_wait_until(&s.c, &s.m, start + 3 * MS_NS) == 0)
        ;
    cr_assert_geq(sfs_env_mono_ns(s.env) - start, 3 * MS_NS);
    cr_assert_eq(sfs_cond_wait_until(&s.c, &s.m, 0), -ETIMEDOUT);
    sfs_mutex_unlock(&s.m);
    cr_assert_gt(sfs_env_wall(s.env).tv_sec, 1600000000);
    sfs_env_yield(s.env);
    shared_destroy(&s);
}

static void try_lock(void *arg)
{
    struct shared *s = arg;

    if (sfs_mutex_trylock(&s->m)) {
        s->counter++;
        sfs_mutex_unlock(&s->m);
    }
}

Test(env_real, trylock)
{
    struct sfs_thread *t;
    struct shared s;

    shared_init(&s);
    sfs_mutex_lock(&s.m);
    cr_assert_eq(sfs_thread_start(s.env, "try", try_lock, &s, &t), 0);
    sfs_thread_join(t);
    cr_assert_eq(s.counter, 0);
    sfs_mutex_unlock(&s.m);
    cr_assert_eq(sfs_thread_start(s.env, "try", try_lock, &s, &t), 0);
    sfs_thread_join(t);
    cr_assert_eq(s.counter, 1);
    shared_destroy(&s);
}

Test(env_real, assert_held_without_it, .signal = SIGABRT)
{
    struct shared s;

    shared_init(&s);
    sfs_mutex_assert_held(&s.m);
}

Test(env_real, random_numbers)
{
    struct sfs_env *env = sfs_env_new_real();
    uint8_t bytes[100] = {0}, zero[100] = {0};

    cr_assert_neq(sfs_env_rand(env), sfs_env_rand(env));
    sfs_env_rand_bytes(env, bytes, 99);
    cr_assert_neq(memcmp(bytes, zero, 99), 0);
    cr_assert_eq(bytes[99], 0);
    sfs_env_free(env);
}
