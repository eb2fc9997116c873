/* Capacity that is true: pools of disks of any sizes are filled to the end through a vfs, and hold what the formula of fs/layout/placement.h says they can; df never promises more; what is deleted can be used again. */
#include "tests/unit/vfs_fixture.h"

#include "fs/layout/placement.h"

static enum sfs_resiliency kind;
static unsigned ndisks, sizes[8];

/* What the free slabs of the pool could hold at best. */
static uint64_t optimum(struct fixture *f)
{
    struct sfs_member_info v[8];
    uint64_t slabs[8];
    unsigned n = sfs_member_list(sfs_pool_data(f->pool), v, 8);
    for (unsigned i = 0; i < n; i++)
        slabs[i] = v[i].free_slabs;
    return sfs_place_capacity(slabs, n, kind, 0, MIB);
}

static void fill_chunk(uint8_t *p, uint64_t seed, uint64_t off)
{
    for (unsigned i = 0; i < MIB; i += 8) {
        uint64_t word = (seed << 40) + off + i;
        memcpy(p + i, &word, 8);
    }
}

/* Writes to the file until there is no room; what went in. */
static uint64_t fill(struct sfs_file *file, uint64_t seed)
{
    uint8_t *chunk = malloc(MIB);
    uint64_t off = 0;
    for (int rc = 0; !rc;) {
        size_t done = 0;
        fill_chunk(chunk, seed, off / MIB * MIB);
        rc = sfs_vfs_write(file, chunk + off % MIB, MIB - off % MIB, off, false, false, &done);
        cr_assert(rc == 0 || rc == -ENOSPC, "writing at %llu: %d", (unsigned long long)off, rc);
        off += done; /* less than was asked for: the next call says why */
    }
    free(chunk);
    cr_assert_eq(sfs_vfs_fsync(file, false), 0, "%s on %u disks, round %llu: what was accepted (%llu KiB) is stored", sfs_resiliency_name(kind), ndisks, (unsigned long long)seed, (unsigned long long)off >> 10);
    return off;
}

static void check(struct sfs_file *file, uint64_t seed, uint64_t size)
{
    uint8_t *want = malloc(MIB), *got = malloc(MIB);
    for (uint64_t off = 0; off < size; off += MIB) {
        size_t len = size - off < MIB ? (size_t)(size - off) : MIB, done = 0;
        fill_chunk(want, seed, off);
        cr_assert_eq(sfs_vfs_read(file, got, len, off, &done), 0);
        cr_assert(done == len && !memcmp(want, got, len), "what lies at %llu is wrong", (unsigned long long)off);
    }
    free(want);
    free(got);
}

static struct sfs_file *create(struct model *m, const char *name)
{
    struct sfs_file *file;
    struct stat st;
    cr_assert_eq(sfs_vfs_create(m->vfs, sfs_vfs_root(m->vfs), name, 0644, O_RDWR, &vfs_root_cred, &st, &file), 0);
    return file;
}

static void body_fill(struct fixture *f)
{
    static struct model m;
    m = (struct model){0};
    make_pool(f, sizes, ndisks);
    open_pool(f);
    make_space(f, "s", kind);
    close_pool(f);
    model_mount(&m, f);
    uint64_t best = optimum(f), slack = best / 256;
    if (slack < 256u << 10)
        slack = 256u << 10;
    if (sfs_resiliency_parity(kind)) /* the slabs of a landing group, which holds one slab of data */
        slack += (uint64_t)sfs_resiliency_tolerance(kind) * MIB;
    struct sfs_volume_stat st;
    sfs_volume_stat(f->vol, &st);
    struct sfs_file *file = create(&m, "full");
    uint64_t wrote = fill(file, 1);
    char what[96];
    snprintf(what, sizeof(what), "%s on %u disks (%u, %u, %u, … MiB)", sfs_resiliency_name(kind), ndisks, sizes[0], sizes[1], sizes[2]);
    cr_assert_geq(wrote + slack, best, "%s: %llu KiB went in, %llu would be the best", what, (unsigned long long)wrote >> 10, (unsigned long long)best >> 10);
    cr_assert_geq(wrote + (64u << 10), st.avail_bytes, "%s: %llu KiB went in, %llu were promised", what, (unsigned long long)wrote >> 10, (unsigned long long)st.avail_bytes >> 10);
    check(file, 1, wrote);
    /* Full: what is there can be cut and deleted, and is room again. */
    struct stat half = {.st_size = (off_t)(wrote / 2)}, out;
    cr_assert_eq(sfs_vfs_setattr(m.vfs, sfs_file_ino(file), &half, SFS_SET_SIZE, &vfs_root_cred, &out), 0);
    check(file, 1, wrote / 2);
    struct sfs_file *other = create(&m, "other");
    uint64_t again = fill(other, 2);
    cr_assert_geq(again + slack + 2 * (uint64_t)ndisks * MIB, wrote - wrote / 2, "%s: after cutting %llu KiB off, %llu went in", what, (unsigned long long)(wrote - wrote / 2) >> 10,
                  (unsigned long long)again >> 10);
    check(file, 1, wrote / 2);
    check(other, 2, again);
    sfs_vfs_release(file);
    sfs_vfs_release(other);
    cr_assert_eq(sfs_vfs_unlink(m.vfs, sfs_vfs_root(m.vfs), "full"), 0);
    cr_assert_eq(sfs_vfs_unlink(m.vfs, sfs_vfs_root(m.vfs), "other"), 0);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    file = create(&m, "full");
    uint64_t third = fill(file, 3);
    if (sfs_resiliency_parity(kind)) /* a landing group more, which was made while slabs were plenty, costs rows of its slabs */
        slack += 2ull * MIB;
    cr_assert_geq(third + slack, best, "%s: emptied, %llu KiB went in, not %llu", what, (unsigned long long)third >> 10, (unsigned long long)best >> 10);
    sfs_vfs_release(file);
    cr_assert_eq(model_unmount(&m), 0);
    close_pool(f);
}

Test(capacity, pools_of_equal_disks_are_filled_to_the_last_slab)
{
    for (unsigned k = 0; k < SFS_RESILIENCY_COUNT; k++) {
        kind = (enum sfs_resiliency)k;
        ndisks = 6;
        for (unsigned i = 0; i < ndisks; i++)
            sizes[i] = 24;
        in_sim(k, body_fill);
    }
}

Test(capacity, pools_of_mixed_disks_reach_the_optimum)
{
    uint64_t x = 20250;
    for (unsigned round = 0; round < 15; round++) {
        kind = (enum sfs_resiliency)(round % SFS_RESILIENCY_COUNT);
        unsigned least = sfs_resiliency_min_disks(kind);
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        ndisks = least + (unsigned)(x >> 33) % (8 - least);
        for (unsigned i = 0; i < ndisks; i++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            sizes[i] = 10 + (unsigned)(x >> 33) % 24;
        }
        in_sim(round, body_fill);
    }
}
