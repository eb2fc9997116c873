/* The formulas of geometry.h, and nothing else. */
#include "fs/layout/geometry.h"

#include <strings.h>

/* Keeps columns * slab_bytes far from overflow. */
#define SLAB_MAX_BYTES (1ull << 48)

struct traits {
    const char *name;
    unsigned copies, parity, tolerance, min_disks, min_columns;
};

static const struct traits traits[SFS_RESILIENCY_COUNT] = {
    [SFS_SIMPLE] = {"simple", 1, 0, 0, 1, 1},   [SFS_MIRROR2] = {"mirror2", 2, 0, 1, 2, 1},
    [SFS_MIRROR3] = {"mirror3", 3, 0, 2, 3, 1}, [SFS_PARITY] = {"parity", 1, 1, 1, 3, 3},
    [SFS_PARITY2] = {"parity2", 1, 2, 2, 4, 4},
};

static bool is_known(enum sfs_resiliency r)
{
    return (unsigned)r < SFS_RESILIENCY_COUNT;
}

static const struct traits *traits_of(enum sfs_resiliency r)
{
    SFS_ASSERT(is_known(r));
    return &traits[r];
}

const char *sfs_resiliency_name(enum sfs_resiliency r)
{
    return is_known(r) ? traits[r].name : "?";
}

int sfs_resiliency_parse(const char *text, enum sfs_resiliency *out, struct sfs_error *err)
{
    for (unsigned r = 0; r < SFS_RESILIENCY_COUNT; r++) {
        if (strcasecmp(text, traits[r].name) == 0) {
            *out = (enum sfs_resiliency)r;
            return 0;
        }
    }
    return sfs_error_set(
        err, -EINVAL, "\"%.64s\" is not a resiliency. There are simple, mirror2, mirror3, parity and parity2",
        text);
}

unsigned sfs_resiliency_copies(enum sfs_resiliency r)
{
    return traits_of(r)->copies;
}

unsigned sfs_resiliency_parity(enum sfs_resiliency r)
{
    return traits_of(r)->parity;
}

unsigned sfs_resiliency_tolerance(enum sfs_resiliency r)
{
    return traits_of(r)->tolerance;
}

unsigned sfs_resiliency_min_disks(enum sfs_resiliency r)
{
    return traits_of(r)->min_disks;
}

unsigned sfs_resiliency_min_columns(enum sfs_resiliency r)
{
    return traits_of(r)->min_columns;
}

int sfs_geometry_init(struct sfs_geometry *g, enum sfs_resiliency r, unsigned columns, uint32_t interleave,
                      uint64_t slab_bytes, struct sfs_error *err)
{
    const struct traits *t;

    if (!is_known(r))
        return sfs_error_set(err, -EINVAL, "resiliency number %u is unknown", (unsigned)r);
    t = &traits[r];
    if (columns < t->min_columns || columns > SFS_MAX_COLUMNS)
        return sfs_error_set(err, -EINVAL, "%s with %u columns: it takes %u to %u", t->name, columns,
                             t->min_columns, SFS_MAX_COLUMNS);
    if (interleave == 0 || interleave % SFS_BLOCK != 0)
        return sfs_error_set(err, -EINVAL, "an interleave of %u bytes: it must be a multiple of %u",
                             interleave, SFS_BLOCK);
    if (slab_bytes < interleave || slab_bytes > SLAB_MAX_BYTES)
        return sfs_error_set(
            err, -EINVAL,
            "slabs of %llu bytes: they must hold at least one interleave (%u bytes), and at most %llu bytes",
            (unsigned long long)slab_bytes, interleave, SLAB_MAX_BYTES);
    g->resiliency = r;
    g->columns = columns;
    g->copies = t->copies;
    g->parity = t->parity;
    g->interleave = interleave;
    g->slab_bytes = slab_bytes;
    return 0;
}

unsigned sfs_geometry_slabs(const struct sfs_geometry *g)
{
    return g->columns * g->copies;
}

unsigned sfs_geometry_data_columns(const struct sfs_geometry *g)
{
    return g->columns - g->parity;
}

uint64_t sfs_geometry_rows(const struct sfs_geometry *g)
{
    return g->slab_bytes / g->interleave;
}

uint64_t sfs_geometry_stripe_bytes(const struct sfs_geometry *g)
{
    return (uint64_t)sfs_geometry_data_columns(g) * g->interleave;
}

uint64_t sfs_geometry_capacity(const struct sfs_geometry *g)
{
    return sfs_geometry_rows(g) * sfs_geometry_stripe_bytes(g);
}

unsigned sfs_geometry_data_column(const struct sfs_geometry *g, uint64_t row, unsigned k)
{
    return g->parity ? (unsigned)((row + k) % g->columns) : k;
}

unsigned sfs_geometry_parity_column(const struct sfs_geometry *g, uint64_t row, unsigned i)
{
    return (unsigned)((row + sfs_geometry_data_columns(g) + i) % g->columns);
}

bool sfs_geometry_next(const struct sfs_geometry *g, uint64_t *off, uint64_t end, struct sfs_piece *p)
{
    uint64_t unit = *off / g->interleave, row = unit / sfs_geometry_data_columns(g), len;
    uint32_t in_unit = (uint32_t)(*off % g->interleave);

    /* Ranges from a catalog are checked against the capacity where they are read. */
    SFS_ASSERT(*off <= end && end <= sfs_geometry_capacity(g));
    if (*off == end)
        return false;
    len = g->interleave - in_unit;
    if (len > end - *off)
        len = end - *off;
    p->group_off = *off;
    p->len = (uint32_t)len;
    p->column = sfs_geometry_data_column(g, row, (unsigned)(unit % sfs_geometry_data_columns(g)));
    p->slab_off = row * g->interleave + in_unit;
    *off += len;
    return true;
}

bool sfs_geometry_unmap(const struct sfs_geometry *g, unsigned column, uint64_t slab_off, uint64_t *group_off)
{
    uint64_t row = slab_off / g->interleave;
    unsigned k;

    if (column >= g->columns || row >= sfs_geometry_rows(g))
        return false;
    k = g->parity ? (unsigned)((column + g->columns - row % g->columns) % g->columns) : column;
    if (k >= sfs_geometry_data_columns(g))
        return false;
    *group_off = (row * sfs_geometry_data_columns(g) + k) * g->interleave + slab_off % g->interleave;
    return true;
}

unsigned sfs_geometry_auto_columns(enum sfs_resiliency r, unsigned disks)
{
    const struct traits *t = traits_of(r);

    if (disks < t->min_disks)
        return 0;
    if (t->parity == 0)
        return 1;
    return disks < SFS_MAX_COLUMNS ? disks : SFS_MAX_COLUMNS;
}
