/* Stores in memory for tests of the catalog. A world holds some stores that outlive every handle. It counts
 * calls, fails the n-th, crashes at the n-th, and at a crash loses unsynced writes: each 4 KiB block and each
 * file's size and existence is kept, lost, or (blocks) kept in part by 512 bytes. */
#ifndef SFS_TESTS_MEM_STORE_H
#define SFS_TESTS_MEM_STORE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "fs/base/env.h"
#include "meta/store.h"

#define MEM_STORES 4
#define MEM_FILES 8

struct mem_bytes {
    uint8_t *data;
    size_t len, cap;
    bool exists;
};
struct mem_file {
    char name[32];
    struct mem_bytes now, durable;
};
struct mem_world;
struct mem_store {
    struct mem_world *w;
    int id;
    struct mem_file files[MEM_FILES];
    bool dead; /* every call: -EIO */
    unsigned long reads, writes, syncs;
};
struct mem_world {
    struct sfs_env *env;
    struct sfs_mutex m;
    struct mem_store s[MEM_STORES];
    uint64_t rng;
    unsigned long calls;   /* all, reads too */
    unsigned long changes; /* writes, truncates, syncs, removes */
    unsigned long fail_at; /* that call (by `calls`) fails with fail_errno; 0 = none */
    int fail_errno;
    int fail_store;   /* -1 = any; only its calls count towards fail_at */
    bool fail_sticky; /* the store stays dead */
    unsigned long fail_seen;
    unsigned long crash_at; /* at that change everything stops; 0 = none */
    bool crashed, full;
};

static inline uint64_t mem_rand(struct mem_world *w)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng;
}

static inline int mem_resize(struct mem_bytes *b, size_t len)
{
    if (len > b->cap) {
        size_t cap = len + len / 2 + 4096;
        uint8_t *p = realloc(b->data, cap);
        if (!p)
            return -ENOMEM;
        b->data = p;
        b->cap = cap;
    }
    if (len > b->len)
        memset(b->data + b->len, 0, len - b->len);
    b->len = len;
    return 0;
}

static inline void mem_copy(struct mem_bytes *to, const struct mem_bytes *from)
{
    mem_resize(to, from->len);
    if (from->len)
        memcpy(to->data, from->data, from->len);
    to->exists = from->exists;
}

static inline struct mem_file *mem_find(struct mem_store *s, const char *name, bool make)
{
    for (int i = 0; i < MEM_FILES; i++)
        if (strcmp(s->files[i].name, name) == 0)
            return &s->files[i];
    for (int i = 0; i < MEM_FILES && make; i++)
        if (!s->files[i].name[0]) {
            strcpy(s->files[i].name, name);
            return &s->files[i];
        }
    return NULL;
}

/* Every call begins here, with the lock taken. Non-zero: what it returns. */
static inline int mem_enter(struct mem_store *s, bool changes)
{
    struct mem_world *w = s->w;
    sfs_env_yield(w->env);
    sfs_mutex_lock(&w->m);
    w->calls++;
    if (changes && !w->crashed && ++w->changes == w->crash_at)
        w->crashed = true;
    if (w->crashed)
        return -ENODEV;
    if (w->fail_at && (w->fail_store < 0 || w->fail_store == s->id) && ++w->fail_seen == w->fail_at) {
        s->dead = w->fail_sticky;
        return w->fail_errno;
    }
    return s->dead ? -EIO : 0;
}

static inline int64_t mem_leave(struct mem_store *s, int64_t rc)
{
    sfs_mutex_unlock(&s->w->m);
    return rc;
}

static inline int64_t mem_size(void *ctx, const char *name)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, false);
    struct mem_file *f = mem_find(s, name, false);
    return mem_leave(s, rc ? rc : f && f->now.exists ? (int64_t)f->now.len : -ENOENT);
}

static inline int64_t mem_read(void *ctx, const char *name, void *buf, size_t len, uint64_t off)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, false);
    struct mem_file *f = mem_find(s, name, false);
    s->reads++;
    if (rc)
        return mem_leave(s, rc);
    if (!f || !f->now.exists)
        return mem_leave(s, -ENOENT);
    if (off >= f->now.len)
        return mem_leave(s, 0);
    if (len > f->now.len - off)
        len = f->now.len - off;
    memcpy(buf, f->now.data + off, len);
    return mem_leave(s, (int64_t)len);
}

static inline int mem_write(void *ctx, const char *name, const void *buf, size_t len, uint64_t off)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, true);
    struct mem_file *f = mem_find(s, name, true);
    s->writes++;
    if (!rc && s->w->full && off + len > f->now.len)
        rc = -ENOSPC;
    if (!rc && off + len > f->now.len)
        rc = mem_resize(&f->now, off + len);
    if (!rc) {
        memcpy(f->now.data + off, buf, len);
        f->now.exists = true;
    }
    return (int)mem_leave(s, rc);
}

static inline int mem_truncate(void *ctx, const char *name, uint64_t size)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, true);
    struct mem_file *f = mem_find(s, name, true);
    if (!rc) {
        rc = mem_resize(&f->now, size);
        f->now.exists = true;
    }
    return (int)mem_leave(s, rc);
}

static inline int mem_sync(void *ctx, const char *name)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, true);
    struct mem_file *f = mem_find(s, name, false);
    s->syncs++;
    if (!rc && f)
        mem_copy(&f->durable, &f->now);
    return (int)mem_leave(s, rc);
}

static inline int mem_remove(void *ctx, const char *name)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, true);
    struct mem_file *f = mem_find(s, name, false);
    if (!rc && f && f->now.exists) {
        f->now.exists = false;
        f->now.len = 0;
    }
    return (int)mem_leave(s, rc);
}

static inline int mem_list(void *ctx, void (*fn)(const char *name, uint64_t size, void *arg), void *arg)
{
    struct mem_store *s = ctx;
    int rc = mem_enter(s, false);
    for (int i = 0; i < MEM_FILES && !rc; i++)
        if (s->files[i].now.exists)
            fn(s->files[i].name, s->files[i].now.len, arg);
    return (int)mem_leave(s, rc);
}

static const struct sfs_store_ops mem_ops = {mem_size, mem_read,   mem_write, mem_truncate,
                                             mem_sync, mem_remove, mem_list};

static inline struct mem_world *mem_world_new(struct sfs_env *env, uint64_t seed)
{
    struct mem_world *w = calloc(1, sizeof(*w));
    w->env = env;
    w->rng = seed * 0x9e3779b97f4a7c15ull + 1;
    w->fail_store = -1;
    w->fail_errno = -EIO;
    sfs_mutex_init(&w->m, env, SFS_RANK_DISK);
    for (int i = 0; i < MEM_STORES; i++) {
        w->s[i].w = w;
        w->s[i].id = i;
    }
    return w;
}

static inline void mem_world_free(struct mem_world *w)
{
    for (int i = 0; i < MEM_STORES; i++)
        for (int k = 0; k < MEM_FILES; k++) {
            free(w->s[i].files[k].now.data);
            free(w->s[i].files[k].durable.data);
        }
    sfs_mutex_destroy(&w->m);
    free(w);
}

static inline struct sfs_store mem_store_of(struct mem_world *w, int i)
{
    struct sfs_store s = {.ops = &mem_ops, .ctx = &w->s[i], .id = i + 1};
    strcpy(s.name, "disk");
    s.name[4] = (char)('1' + i);
    return s;
}

static inline void mem_tear(struct mem_world *w, struct mem_file *f)
{
    size_t max = f->now.len > f->durable.len ? f->now.len : f->durable.len;
    size_t len = mem_rand(w) & 1 ? f->now.len : f->durable.len;
    struct mem_bytes out = {0};
    mem_resize(&f->now, max);
    mem_resize(&f->durable, max);
    mem_copy(&out, &f->durable);
    /* Each block by itself; or all behind some block were written and none before; or the other way round. */
    unsigned mode = (unsigned)(mem_rand(w) % 3);
    size_t cut = (size_t)(mem_rand(w) % (max / 4096 + 2)) * 4096;
    for (size_t off = 0; off < max; off += 4096) {
        size_t n = max - off < 4096 ? max - off : 4096;
        unsigned choice = (unsigned)(mem_rand(w) % 3);
        if (mode)
            choice = (off >= cut) == (mode == 1) ? 0 : 2;
        if (choice == 0)
            memcpy(out.data + off, f->now.data + off, n);
        for (size_t part = 0; choice == 1 && part < n; part += 512)
            if (mem_rand(w) & 1)
                memcpy(out.data + off + part, f->now.data + off + part, n - part < 512 ? n - part : 512);
    }
    out.exists = mem_rand(w) & 1 ? f->now.exists : f->durable.exists;
    mem_resize(&out, out.exists ? len : 0);
    free(f->now.data);
    f->now = out;
    mem_copy(&f->durable, &f->now);
}

/* The machine comes back after a crash (or, with kill_only, after the program died: what was written is
 * there). */
static inline void mem_reboot(struct mem_world *w, bool kill_only)
{
    for (int i = 0; i < MEM_STORES; i++)
        for (int k = 0; k < MEM_FILES; k++)
            if (w->s[i].files[k].name[0] && !kill_only)
                mem_tear(w, &w->s[i].files[k]);
    w->crashed = false;
    w->crash_at = 0;
    w->fail_at = 0;
    w->fail_seen = 0;
    for (int i = 0; i < MEM_STORES; i++)
        w->s[i].dead = false;
}

/* A copy of all stores' contents, to start many runs from one state. */
static inline void mem_world_copy(struct mem_world *to, const struct mem_world *from)
{
    for (int i = 0; i < MEM_STORES; i++)
        for (int k = 0; k < MEM_FILES; k++) {
            strcpy(to->s[i].files[k].name, from->s[i].files[k].name);
            mem_copy(&to->s[i].files[k].now, &from->s[i].files[k].now);
            mem_copy(&to->s[i].files[k].durable, &from->s[i].files[k].durable);
        }
}

static inline void mem_rot(struct mem_world *w, int store, const char *name, size_t off)
{
    struct mem_file *f = mem_find(&w->s[store], name, false);
    f->now.data[off] ^= 0x40;
    if (off < f->durable.len)
        f->durable.data[off] ^= 0x40;
}

#endif
