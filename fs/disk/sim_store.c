/* Bytes of sim disks, durable and pending; sim_world.h says how a crash chooses between them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/disk/sim_world.h"

#define SECTOR 512u

struct sfs_sim_block {
    uint64_t number;
    uint8_t *durable; /* NULL: zeros */
    uint8_t *pending; /* NULL: nothing written since the last sync */
    UT_hash_handle hh;
};

static void *sim_alloc(size_t bytes)
{
    void *p = calloc(1, bytes);
    SFS_ASSERT(p != NULL);
    return p;
}

bool sfs_sim_coin(struct sfs_env *env)
{
    return sfs_env_rand(env) & 1;
}

/* --- blocks ----------------------------------------------------------------------------------- */

static struct sfs_sim_block *block_find(const struct sfs_sim_store *s, uint64_t number)
{
    struct sfs_sim_block *b;
    HASH_FIND(hh, s->blocks, &number, sizeof number, b);
    return b;
}

/* The block with a pending copy to write into. */
static uint8_t *block_for_writing(struct sfs_sim_store *s, uint64_t number)
{
    struct sfs_sim_block *b = block_find(s, number);
    if (!b) {
        b = sim_alloc(sizeof *b);
        b->number = number;
        HASH_ADD(hh, s->blocks, number, sizeof number, b);
    }
    if (!b->pending) {
        b->pending = sim_alloc(SFS_SIM_BLOCK);
        if (b->durable)
            memcpy(b->pending, b->durable, SFS_SIM_BLOCK);
    }
    return b->pending;
}

static void block_keep(struct sfs_sim_block *b)
{
    free(b->durable);
    b->durable = b->pending;
    b->pending = NULL;
}

static void block_lose(struct sfs_sim_block *b)
{
    free(b->pending);
    b->pending = NULL;
}

static void block_tear(struct sfs_sim_block *b, struct sfs_env *env)
{
    uint64_t which = sfs_env_rand(env);
    for (unsigned i = 0; i < SFS_SIM_BLOCK / SECTOR; i++) {
        if (which >> i & 1)
            continue; /* the new sector made it */
        if (b->durable)
            memcpy(b->pending + i * SECTOR, b->durable + i * SECTOR, SECTOR);
        else
            memset(b->pending + i * SECTOR, 0, SECTOR);
    }
    block_keep(b);
}

static size_t part_len(uint64_t off, size_t len)
{
    size_t rest = SFS_SIM_BLOCK - off % SFS_SIM_BLOCK;
    return len < rest ? len : rest;
}

void sfs_simstore_read(const struct sfs_sim_store *s, uint64_t off, uint8_t *out, size_t len)
{
    while (len > 0) {
        size_t n = part_len(off, len);
        const struct sfs_sim_block *b = block_find(s, off / SFS_SIM_BLOCK);
        const uint8_t *from = b ? (b->pending ? b->pending : b->durable) : NULL;
        if (from)
            memcpy(out, from + off % SFS_SIM_BLOCK, n);
        else
            memset(out, 0, n);
        off += n;
        out += n;
        len -= n;
    }
}

static void write_parts(struct sfs_sim_store *s, struct sfs_env *env, uint64_t off, const uint8_t *data,
                        size_t len)
{
    while (len > 0) {
        size_t n = part_len(off, len);
        if (!env || sfs_sim_coin(env)) {
            uint8_t *to = block_for_writing(s, off / SFS_SIM_BLOCK) + off % SFS_SIM_BLOCK;
            if (data)
                memcpy(to, data, n);
            else
                memset(to, 0, n);
        }
        off += n;
        data = data ? data + n : NULL;
        len -= n;
    }
}

void sfs_simstore_write(struct sfs_sim_store *s, uint64_t off, const uint8_t *data, size_t len)
{
    write_parts(s, NULL, off, data, len);
}

void sfs_simstore_write_some(struct sfs_sim_store *s, struct sfs_env *env, uint64_t off, const uint8_t *data,
                             size_t len)
{
    write_parts(s, env, off, data, len);
}

void sfs_simstore_sync(struct sfs_sim_store *s)
{
    for (struct sfs_sim_block *b = s->blocks; b; b = b->hh.next) {
        if (b->pending)
            block_keep(b);
    }
}

void sfs_simstore_resolve(struct sfs_sim_store *s, struct sfs_env *env)
{
    for (struct sfs_sim_block *b = s->blocks; b; b = b->hh.next) {
        if (!b->pending)
            continue;
        uint64_t fate = sfs_env_rand(env) % 5; /* torn ones are rarer than whole ones */
        if (fate < 2)
            block_keep(b);
        else if (fate < 4)
            block_lose(b);
        else
            block_tear(b, env);
    }
}

void sfs_simstore_drop(struct sfs_sim_store *s, struct sfs_env *env)
{
    for (struct sfs_sim_block *b = s->blocks; b; b = b->hh.next) {
        if (b->pending && sfs_sim_coin(env))
            block_keep(b);
        else if (b->pending)
            block_lose(b);
    }
}

void sfs_simstore_flip(struct sfs_sim_store *s, struct sfs_env *env, uint64_t off, size_t len)
{
    for (; len > 0; len--, off++) {
        struct sfs_sim_block *b = block_find(s, off / SFS_SIM_BLOCK);
        uint8_t mask = (uint8_t)(1 + sfs_env_rand(env) % 255);
        if (!b) {
            (void)block_for_writing(s, off / SFS_SIM_BLOCK);
            b = block_find(s, off / SFS_SIM_BLOCK);
            block_keep(b);
        }
        if (b->durable)
            b->durable[off % SFS_SIM_BLOCK] ^= mask;
        if (b->pending)
            b->pending[off % SFS_SIM_BLOCK] ^= mask;
    }
}

void sfs_simstore_copy(struct sfs_sim_store *to, const struct sfs_sim_store *from)
{
    for (const struct sfs_sim_block *b = from->blocks; b; b = b->hh.next) {
        const uint8_t *bytes = b->pending ? b->pending : b->durable;
        if (bytes)
            sfs_simstore_write(to, b->number * SFS_SIM_BLOCK, bytes, SFS_SIM_BLOCK);
    }
    sfs_simstore_sync(to);
}

void sfs_simstore_clear(struct sfs_sim_store *s)
{
    struct sfs_sim_block *b, *next;
    HASH_ITER(hh, s->blocks, b, next)
    {
        HASH_DEL(s->blocks, b);
        free(b->durable);
        free(b->pending);
        free(b);
    }
}

/* --- contents --------------------------------------------------------------------------------- */

void sfs_siminode_set(struct sfs_sim_inode **slot, struct sfs_sim_inode *inode)
{
    struct sfs_sim_inode *old = *slot;
    if (inode)
        inode->refs++;
    *slot = inode;
    if (old && --old->refs == 0) {
        sfs_simstore_clear(&old->store);
        free(old);
    }
}

void sfs_simcontents_init(struct sfs_sim_contents *c)
{
    memset(c, 0, sizeof *c);
    c->label = aligned_alloc(4096, SFS_LABEL_BYTES);
    SFS_ASSERT(c->label != NULL);
    LIST_INIT(&c->files);
}

static void file_free(struct sfs_sim_file *f)
{
    LIST_REMOVE(f, link);
    sfs_siminode_set(&f->now, NULL);
    sfs_siminode_set(&f->durable, NULL);
    free(f);
}

void sfs_simcontents_clear(struct sfs_sim_contents *c)
{
    struct sfs_sim_file *f;
    while ((f = LIST_FIRST(&c->files)) != NULL)
        file_free(f);
    sfs_simstore_clear(&c->slabs);
    free(c->slots);
    free(c->slots_durable);
    free(c->label);
    memset(c, 0, sizeof *c);
}

struct sfs_sim_file *sfs_simcontents_find(struct sfs_sim_contents *c, const char *name)
{
    struct sfs_sim_file *f;
    LIST_FOREACH(f, &c->files, link)
    {
        if (strcmp(f->name, name) == 0)
            return f;
    }
    return NULL;
}

static uint8_t *slots_copy(const uint8_t *from, uint32_t n)
{
    uint8_t *to = sim_alloc(n + 1);
    if (n > 0)
        memcpy(to, from, n);
    return to;
}

void sfs_simcontents_copy(struct sfs_sim_contents *to, const struct sfs_sim_contents *from)
{
    const struct sfs_sim_file *f;
    sfs_simcontents_init(to);
    to->has_label = from->has_label;
    if (from->has_label)
        memcpy(to->label, from->label, SFS_LABEL_BYTES);
    to->nslots = from->nslots;
    to->slots = slots_copy(from->slots, from->nslots);
    to->slots_durable = slots_copy(from->slots, from->nslots);
    sfs_simstore_copy(&to->slabs, &from->slabs);
    LIST_FOREACH(f, &from->files, link)
    {
        if (!f->now)
            continue;
        struct sfs_sim_file *g = sim_alloc(sizeof *g);
        struct sfs_sim_inode *inode = sim_alloc(sizeof *inode);
        inode->size = inode->durable_size = f->now->size;
        sfs_simstore_copy(&inode->store, &f->now->store);
        snprintf(g->name, sizeof g->name, "%s", f->name);
        sfs_siminode_set(&g->now, inode);
        sfs_siminode_set(&g->durable, inode);
        LIST_INSERT_HEAD(&to->files, g, link);
    }
}

static void file_resolve(struct sfs_sim_file *f, struct sfs_env *env)
{
    struct sfs_sim_inode *kept = f->now == f->durable || sfs_sim_coin(env) ? f->now : f->durable;
    if (kept) {
        if (kept->size != kept->durable_size && sfs_sim_coin(env))
            kept->durable_size = kept->size;
        kept->size = kept->durable_size;
        sfs_simstore_resolve(&kept->store, env);
    }
    sfs_siminode_set(f->now == kept ? &f->durable : &f->now, kept);
}

void sfs_simcontents_resolve(struct sfs_sim_contents *c, struct sfs_env *env)
{
    struct sfs_sim_file *f, *next;
    for (uint32_t i = 0; i < c->nslots; i++) {
        if (c->slots[i] != c->slots_durable[i] && sfs_sim_coin(env))
            c->slots_durable[i] = c->slots[i];
        c->slots[i] = c->slots_durable[i];
    }
    sfs_simstore_resolve(&c->slabs, env);
    for (f = LIST_FIRST(&c->files); f; f = next) {
        next = LIST_NEXT(f, link);
        file_resolve(f, env);
        if (!f->now)
            file_free(f);
    }
}
