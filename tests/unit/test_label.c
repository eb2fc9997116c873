/* Labels: what goes in comes out; nothing that is damaged or hostile does. */
#include "tests/unit/disk_common.h"
#include "fs/disk/label_format.h"

static struct sfs_env *env;
static uint8_t *bytes;
static struct sfs_label *in, *out;

static void setup(void)
{
    env = sfs_env_new_sim(1);
    bytes = aligned_alloc(4096, SFS_LABEL_BYTES);
    out = malloc(sizeof *out);
    in = test_label_new(env, "disk-1", 256u << 20);
    in->kind = SFS_DISK_IMAGE;
    in->generation = 3;
    in->capacity_slabs = 4000;
    in->compat = 5;
    in->ro_compat = 6;
    in->layout = (struct sfs_image_layout){1ull << 40, 40960, 1 << 20, 1 << 24, 1 << 16, 1 << 18, 64, 128};
    in->npeers = SFS_LABEL_PEERS;
    in->epoch.nhistory = SFS_LABEL_HISTORY;
    for (unsigned i = 0; i < SFS_LABEL_PEERS; i++) {
        sfs_uuid_generate(env, &in->peers[i].uuid);
        snprintf(in->peers[i].name, sizeof in->peers[i].name, "d%u", i);
        memset(in->peers[i].path, 'p', i * 8);
        in->peers[i].replica = i % 2;
        sfs_uuid_generate(env, &in->epoch.history[i]);
    }
    sfs_label_encode(in, bytes);
}

static void teardown(void)
{
    free(bytes);
    free(out);
    free(in);
    sfs_env_free(env);
}

TestSuite(label, .init = setup, .fini = teardown);

Test(label, round_trip)
{
    struct sfs_error err = {0};
    cr_assert_eq(sfs_label_decode(bytes, out, &err), 0, "%s", err.text);
    cr_assert_eq(out->kind, in->kind);
    cr_assert_eq(out->generation, 3);
    cr_assert_eq(out->capacity_slabs, 4000);
    cr_assert_eq(out->compat, 5);
    cr_assert_eq(out->ro_compat, 6);
    cr_assert_str_eq(out->pool_name, "tank");
    cr_assert_str_eq(out->disk_name, "disk-1");
    cr_assert(memcmp(&out->layout, &in->layout, sizeof in->layout) == 0);
    cr_assert_eq(out->epoch.number, 7);
    cr_assert_eq(out->epoch.nhistory, SFS_LABEL_HISTORY);
    cr_assert(memcmp(out->epoch.history, in->epoch.history, sizeof in->epoch.history) == 0);
    cr_assert_eq(out->npeers, SFS_LABEL_PEERS);
    for (unsigned i = 0; i < SFS_LABEL_PEERS; i++) {
        cr_assert(sfs_uuid_equal(&out->peers[i].uuid, &in->peers[i].uuid));
        cr_assert_str_eq(out->peers[i].name, in->peers[i].name);
        cr_assert_str_eq(out->peers[i].path, in->peers[i].path);
        cr_assert_eq(out->peers[i].replica, i % 2);
    }
    uint8_t *again = aligned_alloc(4096, SFS_LABEL_BYTES);
    sfs_label_encode(out, again);
    cr_assert(memcmp(again, bytes, SFS_LABEL_BYTES) == 0);
    free(again);
}

Test(label, every_byte_counts)
{
    for (uint32_t i = 0; i < SFS_LABEL_BYTES; i++) {
        bytes[i] ^= 0x40;
        int rc = sfs_label_decode(bytes, out, NULL);
        cr_assert_eq(rc, i < 8 ? -ENOENT : -EUCLEAN, "byte %u: %d", i, rc);
        bytes[i] ^= 0x40;
    }
}

Test(label, cut_off)
{
    uint8_t *cut = aligned_alloc(4096, SFS_LABEL_BYTES);
    for (uint32_t keep = 0; keep < SFS_LABEL_BYTES; keep += 97) {
        memset(cut, 0, SFS_LABEL_BYTES);
        memcpy(cut, bytes, keep);
        int rc = sfs_label_decode(cut, out, NULL);
        /* The tail of a label is zeros anyway. */
        if (memcmp(cut, bytes, SFS_LABEL_BYTES) != 0)
            cr_assert_eq(rc, keep < 8 ? -ENOENT : -EUCLEAN);
    }
    free(cut);
}

Test(label, random_bytes)
{
    for (unsigned i = 0; i < 2000; i++) {
        sfs_env_rand_bytes(env, bytes, SFS_LABEL_BYTES);
        cr_assert_eq(sfs_label_decode(bytes, out, NULL), -ENOENT);
        memcpy(bytes, SFS_LABEL_MAGIC, 8);
        cr_assert_eq(sfs_label_decode(bytes, out, NULL), -EUCLEAN);
    }
}

static int seal_and_decode(void)
{
    struct sfs_label_disk *d = (struct sfs_label_disk *)bytes;
    d->checksum = sfs_format_checksum(bytes, SFS_LABEL_BYTES);
    return sfs_label_decode(bytes, out, NULL);
}

/* With a checksum that is right: what an attacker could write. */
Test(label, hostile_values)
{
    struct sfs_label_disk *d = (struct sfs_label_disk *)bytes, *good = malloc(sizeof *good);
    memcpy(good, d, sizeof *good);
#define HOSTILE(change, want)                                                                                \
    do {                                                                                                     \
        memcpy(d, good, sizeof *good);                                                                       \
        change;                                                                                              \
        cr_assert_eq(seal_and_decode(), want, #change);                                                      \
    } while (0)
    HOSTILE((void)0, 0);
    HOSTILE(d->format = 2, -EOPNOTSUPP);
    HOSTILE(d->incompat = 1ull << 63, -EOPNOTSUPP);
    HOSTILE(d->bytes = 4096, -EUCLEAN);
    HOSTILE(d->npeers = SFS_LABEL_PEERS + 1, -EUCLEAN);
    HOSTILE(d->nhistory = UINT32_MAX, -EUCLEAN);
    HOSTILE(d->slab_bytes = 0, -EUCLEAN);
    HOSTILE(d->slab_bytes = 3 << 20, -EUCLEAN);
    HOSTILE(d->slab_bytes = 1ull << 63, -EUCLEAN);
    HOSTILE(d->capacity_slabs = 0, -EUCLEAN);
    HOSTILE(d->capacity_slabs = UINT64_MAX, -EUCLEAN);
    HOSTILE(d->kind = 99, -EUCLEAN);
    HOSTILE(memset(d->pool_name, 'x', sizeof d->pool_name), -EUCLEAN);
    HOSTILE(memset(d->pool_name, 0, sizeof d->pool_name), -EUCLEAN);
    HOSTILE(strcpy(d->pool_name, "a/b"), -EUCLEAN);
    HOSTILE(strcpy(d->disk_name, "\033[2J"), -EUCLEAN);
    HOSTILE(memset(d->peers[63].path, 'x', SFS_PATH_BYTES), -EUCLEAN);
    HOSTILE(memset(d->pool_uuid, 0, 16), -EUCLEAN);
    HOSTILE(memset(d->unused, 1, sizeof d->unused), 0);
#undef HOSTILE
    free(good);
}

Test(label, pick)
{
    struct sfs_label *a = malloc(sizeof *a), *b = malloc(sizeof *b);
    bool stale;
    *a = *in;
    *b = *in;
    cr_assert_eq(sfs_label_pick(a, 0, b, 0, &stale), 0);
    cr_assert_not(stale);
    b->generation = 4;
    cr_assert_eq(sfs_label_pick(a, 0, b, 0, &stale), 0);
    cr_assert(stale && a->generation == 4, "the newer one");
    *a = *in;
    b->generation = 9;
    b->disk_uuid.b[0] ^= 1;
    cr_assert_eq(sfs_label_pick(a, 0, b, 0, &stale), 0);
    cr_assert(stale && a->generation == 3, "a leftover of another disk never");
    cr_assert_eq(sfs_label_pick(a, -EUCLEAN, b, 0, &stale), 0);
    cr_assert(stale && a->generation == 9);
    cr_assert_eq(sfs_label_pick(a, 0, b, -EUCLEAN, &stale), 0);
    cr_assert(stale);
    cr_assert_eq(sfs_label_pick(a, -ENOENT, b, -ENOENT, &stale), -ENOENT);
    cr_assert_eq(sfs_label_pick(a, -ENOENT, b, -EUCLEAN, &stale), -EUCLEAN);
    cr_assert_eq(sfs_label_pick(a, -EOPNOTSUPP, b, 0, &stale), -EOPNOTSUPP);
    cr_assert_not(stale, "nothing is written over what a newer program has made");
    free(a);
    free(b);
}
