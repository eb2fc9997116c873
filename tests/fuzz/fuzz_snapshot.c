/* A snapshot of the catalog: patches on a real one, with its header's checksum made right, or (first byte odd) a header and whatever follows. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pool.h"
#include "tests/unit/mem_store.h"

#include <xxhash.h>

#include "meta/catalog.h"
#include "meta/snapshot.h"
#include "meta/snapshot_format.h"

static const struct sfs_replicas_events no_events;

static struct sfs_replicas *open_replicas(struct sfs_env *env, const struct sfs_store *s)
{
    struct sfs_replicas *r;
    FUZZ_CHECK(sfs_replicas_open(env, s, 1, &no_events, false, &r) == 0);
    return r;
}

static void make_snapshot(struct sfs_env *env, const struct sfs_store *s)
{
    const struct sfs_uuid pool = {{1, 2, 3}};
    const struct sfs_catalog_opts opts = {0};
    struct sfs_error err = {0};
    struct sfs_catalog *cat;
    struct sfs_replicas *r = open_replicas(env, s);
    FUZZ_CHECK(sfs_catalog_create(env, r, &pool, "tank", &err) == 0);
    FUZZ_CHECK(sfs_catalog_open(env, r, &opts, &cat, &err) == 0);
    FUZZ_CHECK(sfs_catalog_snapshot(cat, s, 1, 2, &err) == 0);
    sfs_catalog_close(cat);
    sfs_replicas_close(r);
}

static void tamper(struct mem_file *file, const uint8_t *data, size_t size)
{
    struct fuzz_input in = {data, size};
    struct sfs_snapshot_header *h;
    size_t where;
    if (fuzz_take(&in, 1) & 1) {
        FUZZ_CHECK(mem_resize(&file->now, SFS_SNAPSHOT_HEADER_BYTES + in.left) == 0);
        memcpy(file->now.data + SFS_SNAPSHOT_HEADER_BYTES, in.at, in.left);
        h = (struct sfs_snapshot_header *)file->now.data;
        h->frame_bytes = in.left;
    } else {
        while (fuzz_patch(&in, file->now.data, file->now.len, &where))
            ;
        h = (struct sfs_snapshot_header *)file->now.data;
    }
    h->sum = XXH3_64bits(h, offsetof(struct sfs_snapshot_header, sum));
}

static void body(struct fuzz_pool *f)
{
    struct mem_world *w = mem_world_new(f->env, 1);
    struct sfs_store s = mem_store_of(w, 0);
    struct sfs_snapshot list[8];
    struct sfs_error err = {0};
    unsigned n = 0;
    make_snapshot(f->env, &s);
    struct mem_file *file = NULL;
    for (unsigned i = 0; i < MEM_FILES; i++)
        if (!strncmp(w->s[0].files[i].name, "snapshot-", 9) && w->s[0].files[i].now.exists)
            file = &w->s[0].files[i];
    FUZZ_CHECK(file && file->now.len > SFS_SNAPSHOT_HEADER_BYTES);
    tamper(file, f->data, f->size);
    if (sfs_snapshot_list(&s, SFS_SNAPSHOT_HOURLY, list, 8, &n) == 0 && n) {
        struct sfs_replicas *r = open_replicas(f->env, &s);
        struct sfs_catalog *cat;
        const struct sfs_catalog_opts opts = {0};
        int rc = sfs_snapshot_restore(r, &s, list[0].name, &err);
        FUZZ_CHECK(rc == 0 || err.text[0]);
        if (rc == 0 && sfs_catalog_open(f->env, r, &opts, &cat, &err) == 0)
            sfs_catalog_close(cat);
        sfs_replicas_close(r);
    }
    mem_world_free(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1)
        fuzz_pool_run(data, size, body);
    return 0;
}
