/* Optimizing a pool stores scattered files anew, in order, and follows the space's compression (fs/job/defrag.h). Contiguity is counted, nothing is timed. */
#include "tests/unit/vfs_fixture.h"

#include "fs/pool/pool_impl.h"

static enum sfs_resiliency kind;

/* Pieces of the file that don't begin where the one before ends, on the disks. */
static unsigned breaks(struct fixture *f, struct sfs_file *file, unsigned *compressed)
{
    struct sfs_catalog *cat = sfs_data_catalog(sfs_pool_data(f->pool));
    struct sfs_extent_row *rows = calloc(2048, sizeof(*rows));
    unsigned n, b = 0;
    *compressed = 0;
    sfs_catalog_lock(cat);
    cr_assert_eq(sfs_catalog_extent_list(cat, sfs_file_ino(file), 0, rows, 2048, &n), 0);
    sfs_catalog_unlock(cat);
    for (unsigned i = 0; i < n; i++) {
        b += i && (rows[i].group != rows[i - 1].group || rows[i].goff != rows[i - 1].goff + (rows[i - 1].slen + BLOCK - 1) / BLOCK * BLOCK);
        *compressed += rows[i].codec != SFS_CODEC_NONE;
    }
    free(rows);
    return b;
}

static void optimize(struct fixture *f)
{
    struct sfs_error err = {0};
    char text[256] = "";
    uint64_t job;
    cr_assert_eq(sfs_pool_optimize(f->pool, &job, &err), 0, "%s", err.text);
    cr_assert_eq(sfs_pool_job_wait(f->pool, job, 3600ull * 1000000000ull, text), 0, "%s", text);
}

static void begin(struct model *m, struct fixture *f)
{
    *m = (struct model){0};
    make_pool(f, (unsigned[]){64, 64, 64, 64}, 4);
    open_pool(f);
    make_space(f, "s", kind);
    close_pool(f);
    model_mount(m, f);
}

static void end(struct model *m, struct fixture *f)
{
    model_prove(m, f);
    cr_assert_eq(model_unmount(m), 0);
    close_pool(f);
}

/* Every block of two files is written once, in random order, a few at a time. */
static void write_scattered(struct model *m, struct fixture *f)
{
    static uint32_t order[2 * MODEL_BLOCKS];
    for (uint32_t i = 0; i < 2 * MODEL_BLOCKS; i++)
        order[i] = i;
    for (uint32_t i = 2 * MODEL_BLOCKS - 1; i > 0; i--) {
        uint32_t k = (uint32_t)(sfs_env_rand(f->env) % (i + 1)), x = order[i];
        order[i] = order[k];
        order[k] = x;
    }
    for (uint32_t i = 0; i < 2 * MODEL_BLOCKS; i++) {
        cr_assert_eq(model_write(m, &m->v[order[i] % 2], order[i] / 2, 1), 0);
        if (i % 32 == 31)
            cr_assert_eq(sfs_vfs_sync(m->vfs), 0);
    }
}

static void body_order(struct fixture *f)
{
    static struct model m;
    unsigned z;
    begin(&m, f);
    model_create(&m);
    model_create(&m);
    write_scattered(&m, f);
    for (unsigned i = 0; i < 2; i++)
        cr_assert_gt(breaks(f, m.v[i].file, &z), MODEL_BLOCKS * 3 / 4, "%u", breaks(f, m.v[i].file, &z));
    optimize(f);
    model_check(&m);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    for (unsigned i = 0; i < 2; i++) /* 4 MiB: as if written in order, and a few more where a MiB found no place in one piece */
        cr_assert_leq(breaks(f, m.v[i].file, &z), 16, "%s: %u breaks are left", sfs_resiliency_name(kind), breaks(f, m.v[i].file, &z));
    end(&m, f);
}

Test(defrag, a_file_written_in_random_order_lies_in_order_when_optimized, .timeout = 120)
{
    for (unsigned k = 0; k < SFS_RESILIENCY_COUNT; k++) {
        kind = (enum sfs_resiliency)k;
        in_sim(3 + k, body_order);
    }
}

/* What two files share stays shared. */
static void body_shared(struct fixture *f)
{
    static struct model m;
    struct sfs_volume_stat before, after;
    unsigned z;
    begin(&m, f);
    model_create(&m);
    model_create(&m);
    write_scattered(&m, f);
    model_clone(&m, &m.v[0], model_create(&m), 0, MODEL_BLOCKS);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    sfs_volume_stat(f->vol, &before);
    optimize(f);
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    sfs_volume_stat(f->vol, &after);
    cr_assert_leq(after.used_bytes, before.used_bytes + (64u << 10));
    cr_assert_leq(breaks(f, m.v[1].file, &z), 16);
    end(&m, f);
}

Test(defrag, what_files_share_stays_shared)
{
    kind = SFS_MIRROR2;
    in_sim(20, body_shared);
}

static void set_codec(struct fixture *f, enum sfs_codec codec)
{
    struct sfs_space_settings s = {.codec = &codec};
    struct sfs_error err = {0};
    uint64_t job;
    cr_assert_eq(sfs_pool_space_set(f->pool, "s", &s, &job, &err), 0, "%s", err.text);
}

/* A file of words that repeat: it is stored raw, compressed by optimizing, and stored raw again. */
static void body_codec(struct fixture *f)
{
    static struct model m;
    struct sfs_file *file;
    struct stat st;
    uint8_t *text = malloc(2 * MIB), *got = malloc(2 * MIB);
    size_t done;
    unsigned z;
    begin(&m, f);
    for (unsigned i = 0; i < 2 * MIB; i++)
        text[i] = (uint8_t)"the same words again and again "[i % 31];
    cr_assert_eq(sfs_vfs_create(m.vfs, sfs_vfs_root(m.vfs), "words", 0644, O_RDWR, &vfs_root_cred, &st, &file), 0);
    set_codec(f, SFS_CODEC_NONE);
    cr_assert_eq(sfs_vfs_write(file, text, 2 * MIB, 0, false, false, &done), 0);
    cr_assert_eq(model_write(&m, model_create(&m), 0, 512), 0); /* and one that compresses to nothing less */
    cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
    breaks(f, file, &z);
    cr_assert_eq(z, 0);
    for (unsigned round = 0; round < 2; round++) {
        set_codec(f, round == 0 ? SFS_CODEC_ZSTD : SFS_CODEC_NONE);
        optimize(f);
        cr_assert_eq(sfs_vfs_sync(m.vfs), 0);
        breaks(f, file, &z);
        cr_assert_eq(z > 0, round == 0, "round %u: %u pieces are compressed", round, z);
        breaks(f, m.v[0].file, &z);
        cr_assert_eq(z, 0);
        cr_assert_eq(sfs_vfs_read(file, got, 2 * MIB, 0, &done), 0);
        cr_assert(done == 2 * MIB && !memcmp(got, text, 2 * MIB));
    }
    sfs_vfs_release(file);
    free(text);
    free(got);
    end(&m, f);
}

Test(defrag, compression_follows_the_settings)
{
    kind = SFS_MIRROR2;
    in_sim(30, body_codec);
}
