/* The catalog's rules, one fault after the other. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fs/layout/geometry.h"

/* --- geometry for the layer that doesn't know it --- */

static uint64_t geo_capacity(void *ctx, int64_t resiliency, int64_t columns, int64_t interleave)
{
    const struct sfs_check *c = ctx;
    struct sfs_geometry g;
    if (resiliency < 0 || resiliency >= SFS_RESILIENCY_COUNT || columns < 0 || columns > (int64_t)SFS_MAX_COLUMNS || interleave < 0 || interleave > UINT32_MAX ||
        sfs_geometry_init(&g, (enum sfs_resiliency)resiliency, (unsigned)columns, (uint32_t)interleave, c->slab_bytes, NULL))
        return 0;
    return sfs_geometry_capacity(&g);
}

static unsigned geo_copies(int64_t resiliency)
{
    return sfs_resiliency_copies((enum sfs_resiliency)resiliency);
}

static unsigned geo_parity(int64_t resiliency)
{
    return sfs_resiliency_parity((enum sfs_resiliency)resiliency);
}

/* --- what the disks say --- */

struct slots {
    struct sfs_check *c;
    const struct sfs_check_disk *d;
    int rc;
};

static void note_present(uint32_t slot, void *ctx)
{
    struct slots *s = ctx;
    if (!s->rc)
        s->rc = sfs_audit_slot_present(s->c->audit, &s->d->uuid, slot);
}

static int tell_disk(struct sfs_check *c, const struct sfs_check_disk *d)
{
    struct slots s = {c, d, 0};
    struct sfs_label *l = malloc(sizeof(*l));
    if (!l)
        return -ENOMEM;
    sfs_disk_label(d->disk, l);
    uint64_t capacity = l->capacity_slabs;
    free(l);
    bool files = sfs_disk_kind(d->disk) != SFS_DISK_IMAGE; /* an image has its slabs at fixed places */
    int rc = sfs_audit_disk(c->audit, &d->uuid, d->name, capacity, files);
    if (!rc && files)
        rc = sfs_disk_slab_list(d->disk, note_present, &s);
    for (uint64_t slot = 0; !rc && !files && slot < capacity; slot++)
        if (sfs_disk_slot_claimed(d->disk, (uint32_t)slot))
            rc = sfs_audit_slot_claimed(c->audit, &d->uuid, (uint32_t)slot);
    return rc ? rc : s.rc;
}

static int tell_disks(struct sfs_check *c)
{
    int rc = sfs_audit_pool(c->audit, &c->found.pool, c->result->pool);
    for (unsigned i = 0; !rc && i < c->ndisks; i++)
        if (c->disks[i].disk)
            rc = tell_disk(c, &c->disks[i]);
    return rc;
}

/* --- structure --- */

struct lines {
    char text[SFS_CHECK_ITEMS][SFS_AUDIT_TEXT * 3];
    const char *items[SFS_CHECK_ITEMS];
    unsigned n;
    const char *template;
};

static void take_complaint(void *ctx, const char *text)
{
    struct lines *l = ctx;
    if (l->n == SFS_CHECK_ITEMS)
        return;
    snprintf(l->text[l->n], sizeof(l->text[0]), "%s", text);
    l->items[l->n] = l->text[l->n];
    l->n++;
}

/* *usable: tables can be relied on. What isn't about indexes alone can't be mended from within. */
static int check_structure(struct sfs_check *c, struct lines *l, bool *usable)
{
    uint64_t n = 0, left = 0;
    *usable = true;
    sfs_check_progress(c, "structure of the catalog", 0, 0);
    int rc = sfs_audit_integrity(c->audit, take_complaint, l, &n);
    if (rc || !n)
        return rc;
    struct sfs_check_problem p = {.id = "structure", .what = "The catalog's database doesn't hold together", .repair = "make its indexes anew from its tables", .severity = SFS_SEVERITY_SAFE, .count = n, .items = l->items, .nitems = l->n};
    if (!sfs_check_allowed(c, &p)) {
        sfs_check_settle(c, &p, sfs_check_unmended(c));
        return 0; /* what follows is found as far as it can be */
    }
    rc = sfs_check_save(c);
    if (!rc) {
        rc = sfs_audit_reindex(c->audit);
        *usable = rc == 0;
        if (rc == -EEXIST || rc == -EUCLEAN)
            rc = 0;
    }
    if (!rc && *usable)
        rc = sfs_audit_integrity(c->audit, NULL, NULL, &left);
    /* The unique index comes back with the commit, once doubles are gone. */
    *usable = *usable && left <= 1;
    if (!rc && *usable)
        sfs_check_settle(c, &p, SFS_OUTCOME_MENDED);
    return rc;
}

/* --- rules --- */

static void take_item(void *ctx, const struct sfs_audit_item *item)
{
    struct lines *l = ctx;
    if (l->n == SFS_CHECK_ITEMS)
        return;
    sfs_check_item_text(l->template, item, l->text[l->n], sizeof(l->text[0]));
    l->items[l->n] = l->text[l->n];
    l->n++;
}

static int check_fault(struct sfs_check *c, enum sfs_fault fault, struct lines *l)
{
    const struct sfs_check_words *w = &sfs_check_words[fault];
    uint64_t n;
    int rc = fault == SFS_FAULT_SLAB_TWICE ? sfs_check_judge_contested(c) : 0;
    if (!rc)
        rc = sfs_audit_find(c->audit, fault, &n);
    if (rc || !n)
        return rc;
    l->n = 0;
    l->template = w->item;
    rc = sfs_audit_each(c->audit, SFS_CHECK_ITEMS, take_item, l);
    if (rc)
        return rc;
    struct sfs_check_problem p = {.id = w->id, .what = w->what, .repair = w->repair, .severity = w->severity, .count = n, .items = l->items, .nitems = l->n};
    if (!sfs_check_allowed(c, &p)) {
        sfs_check_settle(c, &p, sfs_check_unmended(c));
        return 0;
    }
    rc = sfs_check_save(c);
    if (!rc && fault == SFS_FAULT_EXTENT_SHARED)
        return sfs_check_take_shared(c); /* reading them tells */
    if (!rc)
        rc = sfs_audit_mend(c->audit, fault);
    if (!rc)
        sfs_check_settle(c, &p, SFS_OUTCOME_MENDED);
    return rc;
}

static int check_faults(struct sfs_check *c, struct lines *l)
{
    int rc = 0;
    for (int f = 0; f < SFS_FAULT_COUNT && !rc; f++) {
        if (sfs_check_cancelled(c))
            return -ECANCELED; /* nothing of it was committed */
        sfs_check_progress(c, "rules of the catalog", (uint64_t)f, SFS_FAULT_COUNT);
        rc = check_fault(c, (enum sfs_fault)f, l);
    }
    return rc;
}

/* --- slabs that nobody knows --- */

struct unknown {
    struct sfs_check *c;
    struct lines *l;
    uint64_t n;
    bool freeing;
};

static int take_unknown(void *ctx, const struct sfs_uuid *uuid, uint32_t slot)
{
    struct unknown *u = ctx;
    struct sfs_check_disk *d = sfs_check_disk_of(u->c, uuid);
    char text[SFS_NAME_MAX + 40];
    u->n++;
    if (!d)
        return 0;
    snprintf(text, sizeof(text), "%s: slot %u", d->name, slot);
    if (!u->freeing)
        take_complaint(u->l, text);
    return u->freeing ? sfs_disk_slab_free(d->disk, slot) : 0;
}

/* Made, and then not committed, or left by a crash while they were being freed: the pool frees them when it is opened, too. Not after falling back to an older catalog: there they may be all that is left of newer data. */
static int free_unknown(struct sfs_check *c, struct lines *l)
{
    struct unknown u = {.c = c, .l = l};
    l->n = 0;
    int rc = sfs_audit_slots_unknown(c->audit, take_unknown, &u);
    if (rc || !u.n || c->rolled_back || c->extracting)
        return rc;
    struct sfs_check_problem p = {.id = "slab-unknown", .what = "Slabs on disks of which the catalog doesn't know", .repair = "free them", .severity = SFS_SEVERITY_SAFE, .count = u.n, .items = l->items, .nitems = l->n};
    bool mend = c->result->left == 0 && sfs_check_allowed(c, &p);
    u.freeing = true;
    if (mend)
        rc = sfs_audit_slots_unknown(c->audit, take_unknown, &u);
    if (!rc)
        sfs_check_settle(c, &p, mend ? SFS_OUTCOME_MENDED : sfs_check_unmended(c));
    return rc;
}

int sfs_check_open_audit(struct sfs_check *c)
{
    struct sfs_audit_geometry geo = {geo_capacity, geo_copies, geo_parity, c, sfs_pool_prop_ok};
    return sfs_audit_open(c->env, c->replicas, &geo, !sfs_check_writes(c), &c->audit, c->err);
}

/* *usable false: the database's structure is beyond mending. */
static int check_once(struct sfs_check *c, struct lines *l, bool *usable)
{
    int rc = sfs_check_open_audit(c);
    *usable = rc != -EUCLEAN;
    if (!rc)
        rc = sfs_check_lost_labels(c);
    if (!rc)
        rc = tell_disks(c);
    if (!rc)
        rc = check_structure(c, l, usable);
    if (!rc && *usable)
        rc = check_faults(c, l);
    if (!rc && *usable && sfs_audit_changed(c->audit)) {
        rc = sfs_audit_commit(c->audit);
        c->repaired = rc == 0;
    }
    if (!rc && *usable)
        rc = free_unknown(c, l);
    *usable &= rc != -EUCLEAN; /* a page that cannot be */
    return *usable ? rc : 0;
}

int sfs_check_catalog(struct sfs_check *c)
{
    struct lines *l = calloc(1, sizeof(*l));
    bool usable = true;
    if (!l)
        return -ENOMEM;
    int rc = check_once(c, l, &usable);
    if (!usable) { /* what is wrong was found with every copy the same: none is better */
        c->err->code = 0;
        if (c->extracting) {
            free(l);
            return -EUCLEAN;
        }
        c->fallen = true;
        rc = sfs_check_fall_back(c);
        if (!rc && c->replicas)
            rc = check_once(c, l, &usable);
        if (!rc && !usable)
            rc = sfs_error_set(c->err, -EUCLEAN, "Pool %s: the older catalog doesn't hold together, either. Go back to another one with --restore; --extract copies out what can be read.", c->result->pool);
    }
    free(l);
    if (rc && rc != -ECANCELED && !c->err->code)
        sfs_error_set(c->err, rc, "Pool %s: checking its catalog failed: %s. Nothing of it was changed.", c->result->pool, strerror(-rc));
    return rc;
}
