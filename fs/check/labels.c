/* Disks that have lost their label, in both copies. What a label says stands in the other labels and in the catalog; only which disk it is has to be proven: the disk is read as if it bore the label of one that is missing, and
 * what the catalog has on that one must be there, by its checksums. The catalog, which is what everything else goes by, comes from the other disks.
 *
 * The new label counts as an old one (its generation is the first): so the pool takes the disk for one from an earlier time, and verifies every copy on it before it relies on it (fs/pool/suspect.c). Its copy of the catalog doesn't count. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct sfs_check *c;
    struct sfs_check_disk *d;   /* the one that is missing */
    struct sfs_disk *disk;
    struct sfs_check_proof all;
    int rc;
};

static int prove_one(void *ctx, const struct sfs_audit_slab *s)
{
    struct search *v = ctx;
    struct sfs_check_proof p;
    int rc = sfs_check_prove_slab(v->c, v->disk, s, SFS_CHECK_PROOFS / 8, &p);
    v->all.good += p.good;
    v->all.bad += p.bad;
    return rc ? rc : v->all.good + v->all.bad >= SFS_CHECK_PROOFS * 16;
}

/* The label that the missing disk should bear. */
static int make_label(struct sfs_check *c, const struct sfs_check_disk *d, struct sfs_label *l)
{
    struct sfs_audit_disk_row row;
    *l = c->found.v[c->found.newest].label;
    int rc = sfs_audit_disk_find(c->audit, &d->uuid, &row);
    if (rc)
        return rc;
    l->generation = 0; /* counted when it is written */
    l->disk_uuid = d->uuid;
    snprintf(l->disk_name, sizeof(l->disk_name), "%s", d->name);
    l->capacity_slabs = row.capacity_slabs;
    l->epoch = c->epoch;
    l->replica = false;
    return 0;
}

static int open_as(struct sfs_check *c, const struct sfs_label *l, const char *path, bool readonly, struct sfs_disk **out, struct sfs_error *why)
{
    struct sfs_disk_opts o = {.world = c->opts->world, .readonly = readonly, .timeout_ns = c->opts->disk_timeout_ns, .workers = sfs_env_is_sim(c->env) ? 2 : 0, .assume = l};
    return sfs_disk_open(c->env, path, &o, out, why);
}

/* Is there something at that path which has been a disk, and is none now? */
static bool lost_its_label(struct sfs_check *c, const char *path)
{
    struct sfs_disk_probe *p = calloc(1, sizeof(*p));
    bool lost = p && path[0] && !sfs_disk_probe(c->env, path, c->opts->world, p, NULL) && !p->has_label && (p->label_rc == -EUCLEAN || p->label_rc == -ENOENT);
    free(p);
    return lost;
}

/* At path, by its data? 0: no; 1: yes. */
static int is_it(struct sfs_check *c, struct sfs_check_disk *d, const struct sfs_label *l, const char *path)
{
    struct search v = {.c = c, .d = d};
    struct sfs_error why = {0};
    if (open_as(c, l, path, true, &v.disk, &why))
        return 0;
    int rc = sfs_audit_slabs_on(c->audit, &d->uuid, prove_one, &v);
    sfs_disk_close(v.disk);
    if (rc < 0)
        return rc == -ENOMEM ? rc : 0;
    return v.all.good > v.all.bad;
}

/* Opens it for good, and writes the label where that is wanted. */
static int adopt(struct sfs_check *c, struct sfs_check_disk *d, struct sfs_label *l, const char *path, bool write)
{
    struct sfs_error why = {0};
    int rc = open_as(c, l, path, !write, &d->disk, &why);
    if (!rc && write) {
        sfs_disk_label(d->disk, l); /* an image's layout has come in */
        for (unsigned i = 0; i < l->npeers; i++)
            if (sfs_uuid_equal(&l->peers[i].uuid, &d->uuid))
                snprintf(l->peers[i].path, sizeof(l->peers[i].path), "%s", path);
        rc = sfs_disk_write_label(d->disk, l);
    }
    if (rc) {
        sfs_check_note(c, "The label of disk %s (%s) could not be written: %s.", d->name, path, why.code ? why.text : strerror(-rc));
        c->result->status |= SFS_CHECK_LEFT;
        sfs_disk_close(d->disk);
        d->disk = NULL;
        return rc == -ENOMEM ? rc : 0;
    }
    d->present = true;
    d->replica = false;
    snprintf(d->path, sizeof(d->path), "%s", path);
    return 0;
}

static int settle_found(struct sfs_check *c, struct sfs_check_disk *d, struct sfs_label *l, const char *path)
{
    char item[SFS_NAME_MAX + SFS_PATH_BYTES + 48];
    const char *items[] = {item};
    struct sfs_check_problem p = {.id = "label-lost", .what = "Disks that have lost their label, in both copies", .severity = SFS_SEVERITY_SAFE, .count = 1, .items = items, .nitems = 1,
                                  .repair = "make it anew as the other labels and the catalog have it; what is on the disk is verified when the pool is used next"};
    snprintf(item, sizeof(item), "%s (%s), by the checksums of what is on it", d->name, path);
    bool mend = sfs_check_allowed(c, &p);
    int rc = adopt(c, d, l, path, mend);
    if (!rc)
        sfs_check_settle(c, &p, mend && d->disk ? SFS_OUTCOME_MENDED : sfs_check_unmended(c));
    return rc;
}

/* Where it may be: where it was last seen, and where a person says. */
static const char *candidate(const struct sfs_check *c, const struct sfs_check_disk *d, unsigned i)
{
    return i == 0 ? d->path : i <= c->opts->nsearch ? c->opts->search[i - 1] : NULL;
}

static int look_for(struct sfs_check *c, struct sfs_check_disk *d, struct sfs_label *l)
{
    char path[SFS_PATH_BYTES], unproven[SFS_PATH_BYTES] = "";
    const char *at;
    int rc = make_label(c, d, l);
    for (unsigned i = 0; !rc && !d->disk && (at = candidate(c, d, i)); i++) {
        char *abs = strncmp(at, "sim:", 4) ? realpath(at, NULL) : NULL;
        int n = snprintf(path, sizeof(path), "%s", abs ? abs : at);
        free(abs);
        if (n >= (int)sizeof(path) || !lost_its_label(c, path))
            continue;
        rc = is_it(c, d, l, path);
        if (rc == 1)
            return settle_found(c, d, l, path);
        if (i == 0)
            snprintf(unproven, sizeof(unproven), "%s", path);
    }
    if (!rc && unproven[0])
        sfs_check_note(c, "%s, where disk %s was last seen, bears no label that can be read, and nothing on it proves that it is that disk: it is left alone. If the disk is gone or holds nothing that is needed, "
                       "`spacesfs disk forget %s %s` takes it out of the pool and `spacesfs disk add %s --force %s` makes it a new disk of it.",
                       unproven, d->name, c->result->pool, d->name, c->result->pool, unproven);
    return rc == -ENOENT ? 0 : rc; /* no such row */
}

int sfs_check_lost_labels(struct sfs_check *c)
{
    struct sfs_label *l = malloc(sizeof(*l));
    int rc = l ? 0 : -ENOMEM;
    for (unsigned i = 0; !rc && !c->extracting && i < c->ndisks; i++)
        if (!c->disks[i].present && !c->disks[i].disk)
            rc = look_for(c, &c->disks[i], l);
    free(l);
    return rc;
}
