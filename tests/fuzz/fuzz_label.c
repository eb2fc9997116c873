/* Labels: patches on a valid one, with its checksum made right again, or (first byte odd) bytes as they come. */
#include "tests/fuzz/fuzz.h"

#include "fs/disk/image.h"

static void valid_label(uint8_t *out)
{
    struct sfs_label *l = calloc(1, sizeof(*l));
    FUZZ_CHECK(l);
    l->format = SFS_FORMAT_VERSION;
    l->kind = SFS_DISK_DIR;
    l->slab_bytes = 1 << 20;
    l->capacity_slabs = 64;
    l->epoch.number = 3;
    l->epoch.nhistory = 2;
    l->npeers = 2;
    strcpy(l->pool_name, "tank");
    strcpy(l->disk_name, "a");
    for (unsigned i = 0; i < l->npeers; i++) {
        snprintf(l->peers[i].name, sizeof(l->peers[i].name), "%c", 'a' + (int)i);
        snprintf(l->peers[i].path, sizeof(l->peers[i].path), "/mnt/%c", 'a' + (int)i);
        memset(l->peers[i].uuid.b, 'a' + (int)i, sizeof(l->peers[i].uuid.b));
    }
    l->disk_uuid = l->peers[0].uuid;
    memset(l->pool_uuid.b, 'p', sizeof(l->pool_uuid.b));
    sfs_label_encode(l, out);
    free(l);
}

static bool ends(const char *s, size_t cap)
{
    return memchr(s, '\0', cap) != NULL;
}

/* What everyone relies on who has a decoded label. */
static void check_decoded(const struct sfs_label *l)
{
    FUZZ_CHECK(ends(l->pool_name, sizeof(l->pool_name)) && ends(l->disk_name, sizeof(l->disk_name)));
    FUZZ_CHECK(l->npeers <= SFS_LABEL_PEERS && l->epoch.nhistory <= SFS_LABEL_HISTORY);
    FUZZ_CHECK(l->slab_bytes && (l->slab_bytes & (l->slab_bytes - 1)) == 0);
    for (unsigned i = 0; i < l->npeers; i++)
        FUZZ_CHECK(ends(l->peers[i].name, sizeof(l->peers[i].name)) && ends(l->peers[i].path, sizeof(l->peers[i].path)));
    (void)sfs_image_layout_ok(l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t bytes[SFS_LABEL_BYTES], again[SFS_LABEL_BYTES];
    struct fuzz_input in = {data, len};
    struct sfs_error err = {0};
    size_t where;
    struct sfs_label *l = malloc(sizeof(*l)), *m = malloc(sizeof(*m));
    FUZZ_CHECK(l && m);
    if (fuzz_take(&in, 1) & 1) {
        memset(bytes, 0, sizeof(bytes));
        memcpy(bytes, in.at, in.left < sizeof(bytes) ? in.left : sizeof(bytes));
    } else {
        valid_label(bytes);
        FUZZ_CHECK(sfs_label_decode(bytes, l, &err) == 0);
        while (fuzz_patch(&in, bytes, sizeof(bytes), &where))
            ;
        uint64_t sum = sfs_format_checksum(bytes, sizeof(bytes));
        memcpy(bytes + 16, &sum, sizeof(sum));
    }
    int rc = sfs_label_decode(bytes, l, &err);
    FUZZ_CHECK(rc == 0 || rc == -EUCLEAN || rc == -ENOENT || rc == -EOPNOTSUPP);
    if (rc == 0) {
        check_decoded(l);
        sfs_label_encode(l, again);
        FUZZ_CHECK(sfs_label_decode(again, m, &err) == 0);
    }
    free(m);
    free(l);
    return 0;
}
