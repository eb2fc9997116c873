/* Labels: between memory and bytes. Decoding trusts nothing: checksum first, then every length and range. */
#include <endian.h>
#include <string.h>
#include <xxhash.h>
#include "fs/base/size.h"
#include "fs/disk/label_format.h"

uint64_t sfs_format_checksum(const uint8_t *bytes, size_t len)
{
    SFS_ASSERT(len >= 24);
    return XXH3_64bits_withSeed(bytes + 24, len - 24, XXH3_64bits(bytes, 16));
}

static void text_encode(char *out, size_t out_bytes, const char *text)
{
    size_t len = strlen(text);
    SFS_ASSERT(len < out_bytes);
    memcpy(out, text, len + 1);
}

/* NUL-terminated and within what memory has room for. */
static bool text_decode(char *out, size_t out_bytes, const char *in, size_t in_bytes)
{
    size_t len = strnlen(in, in_bytes);
    if (len == in_bytes || len >= out_bytes)
        return false;
    memcpy(out, in, len + 1);
    return true;
}

static void layout_encode(const struct sfs_image_layout *y, struct sfs_label_disk *d)
{
    d->image_bytes = htole64(y->image_bytes);
    d->map_off = htole64(y->map_off);
    d->meta_off = htole64(y->meta_off);
    d->slots_off = htole64(y->slots_off);
    d->map_bytes = htole32(y->map_bytes);
    d->chunk_bytes = htole32(y->chunk_bytes);
    d->base_chunks = htole32(y->base_chunks);
    d->max_chunks = htole32(y->max_chunks);
}

void sfs_label_encode(const struct sfs_label *l, uint8_t *out)
{
    struct sfs_label_disk *d = (struct sfs_label_disk *)out;
    SFS_ASSERT((uintptr_t)out % _Alignof(struct sfs_label_disk) == 0);
    SFS_ASSERT(l->npeers <= SFS_LABEL_PEERS && l->epoch.nhistory <= SFS_LABEL_HISTORY);
    memset(d, 0, sizeof *d);
    memcpy(d->magic, SFS_LABEL_MAGIC, sizeof d->magic);
    d->format = htole32(l->format);
    d->bytes = htole32(SFS_LABEL_BYTES);
    d->compat = htole64(l->compat);
    d->ro_compat = htole64(l->ro_compat);
    d->incompat = htole64(l->incompat);
    d->generation = htole64(l->generation);
    memcpy(d->pool_uuid, l->pool_uuid.b, 16);
    memcpy(d->disk_uuid, l->disk_uuid.b, 16);
    d->slab_bytes = htole64(l->slab_bytes);
    d->capacity_slabs = htole64(l->capacity_slabs);
    d->flags = htole32(l->replica ? SFS_LABEL_FLAG_REPLICA : 0);
    d->kind = htole32((uint32_t)l->kind);
    layout_encode(&l->layout, d);
    text_encode(d->pool_name, sizeof d->pool_name, l->pool_name);
    text_encode(d->disk_name, sizeof d->disk_name, l->disk_name);

    d->epoch_number = htole64(l->epoch.number);
    memcpy(d->epoch_id, l->epoch.id.b, 16);
    d->nhistory = htole32(l->epoch.nhistory);
    for (uint32_t i = 0; i < l->epoch.nhistory; i++)
        memcpy(d->history[i], l->epoch.history[i].b, 16);

    d->npeers = htole32(l->npeers);
    for (uint32_t i = 0; i < l->npeers; i++) {
        const struct sfs_label_peer *p = &l->peers[i];
        struct sfs_label_peer_disk *q = &d->peers[i];
        memcpy(q->uuid, p->uuid.b, 16);
        q->flags = htole32(p->replica ? SFS_LABEL_FLAG_REPLICA : 0);
        text_encode(q->name, sizeof q->name, p->name);
        text_encode(q->path, sizeof q->path, p->path);
    }
    d->checksum = htole64(sfs_format_checksum(out, SFS_LABEL_BYTES));
}

static bool epoch_decode(const struct sfs_label_disk *d, struct sfs_epoch *e)
{
    e->number = le64toh(d->epoch_number);
    memcpy(e->id.b, d->epoch_id, 16);
    e->nhistory = le32toh(d->nhistory);
    if (e->nhistory > SFS_LABEL_HISTORY)
        return false;
    for (uint32_t i = 0; i < e->nhistory; i++)
        memcpy(e->history[i].b, d->history[i], 16);
    return true;
}

static bool peers_decode(const struct sfs_label_disk *d, struct sfs_label *l)
{
    l->npeers = le32toh(d->npeers);
    if (l->npeers > SFS_LABEL_PEERS)
        return false;
    for (uint32_t i = 0; i < l->npeers; i++) {
        const struct sfs_label_peer_disk *q = &d->peers[i];
        struct sfs_label_peer *p = &l->peers[i];
        memcpy(p->uuid.b, q->uuid, 16);
        p->replica = le32toh(q->flags) & SFS_LABEL_FLAG_REPLICA;
        if (!text_decode(p->name, sizeof p->name, q->name, sizeof q->name) ||
            !text_decode(p->path, sizeof p->path, q->path, sizeof q->path) ||
            sfs_name_check(p->name, "disk", NULL) != 0)
            return false;
    }
    return true;
}

static void layout_decode(const struct sfs_label_disk *d, struct sfs_image_layout *y)
{
    y->image_bytes = le64toh(d->image_bytes);
    y->map_off = le64toh(d->map_off);
    y->meta_off = le64toh(d->meta_off);
    y->slots_off = le64toh(d->slots_off);
    y->map_bytes = le32toh(d->map_bytes);
    y->chunk_bytes = le32toh(d->chunk_bytes);
    y->base_chunks = le32toh(d->base_chunks);
    y->max_chunks = le32toh(d->max_chunks);
}

static bool body_decode(const struct sfs_label_disk *d, struct sfs_label *l)
{
    l->compat = le64toh(d->compat);
    l->ro_compat = le64toh(d->ro_compat);
    l->incompat = le64toh(d->incompat);
    l->generation = le64toh(d->generation);
    memcpy(l->pool_uuid.b, d->pool_uuid, 16);
    memcpy(l->disk_uuid.b, d->disk_uuid, 16);
    l->slab_bytes = le64toh(d->slab_bytes);
    l->capacity_slabs = le64toh(d->capacity_slabs);
    l->replica = le32toh(d->flags) & SFS_LABEL_FLAG_REPLICA;
    layout_decode(d, &l->layout);

    uint32_t kind = le32toh(d->kind);
    if (kind != SFS_DISK_DIR && kind != SFS_DISK_IMAGE && kind != SFS_DISK_SIM)
        return false;
    l->kind = (enum sfs_disk_kind)kind;
    if (sfs_uuid_is_null(&l->pool_uuid) || sfs_uuid_is_null(&l->disk_uuid))
        return false;
    if (l->slab_bytes < 4096 || l->slab_bytes > 1ull << 40 || (l->slab_bytes & (l->slab_bytes - 1)) != 0)
        return false;
    if (l->capacity_slabs < 1 || l->capacity_slabs > SFS_SLOTS_MAX ||
        l->capacity_slabs > (1ull << 62) / l->slab_bytes)
        return false;
    if (!text_decode(l->pool_name, sizeof l->pool_name, d->pool_name, sizeof d->pool_name) ||
        !text_decode(l->disk_name, sizeof l->disk_name, d->disk_name, sizeof d->disk_name))
        return false;
    if (sfs_name_check(l->pool_name, "pool", NULL) != 0 || sfs_name_check(l->disk_name, "disk", NULL) != 0)
        return false;
    return epoch_decode(d, &l->epoch) && peers_decode(d, l);
}

int sfs_label_decode(const uint8_t *bytes, struct sfs_label *out, struct sfs_error *err)
{
    const struct sfs_label_disk *d = (const struct sfs_label_disk *)bytes;
    SFS_ASSERT((uintptr_t)bytes % _Alignof(struct sfs_label_disk) == 0);
    memset(out, 0, sizeof *out);
    if (memcmp(d->magic, SFS_LABEL_MAGIC, sizeof d->magic) != 0)
        return sfs_error_set(err, -ENOENT, "There is no spacesfs label.");
    if (le64toh(d->checksum) != sfs_format_checksum(bytes, SFS_LABEL_BYTES))
        return sfs_error_set(err, -EUCLEAN, "The spacesfs label is damaged: its checksum is wrong.");
    out->format = le32toh(d->format);
    if (out->format != SFS_FORMAT_VERSION)
        return sfs_error_set(err, -EOPNOTSUPP,
                             "The disk has format version %u; this program knows version %u only. "
                             "Use a newer spacesfs.",
                             out->format, SFS_FORMAT_VERSION);
    uint64_t unknown = le64toh(d->incompat) & ~SFS_LABEL_INCOMPAT_KNOWN;
    if (unknown)
        return sfs_error_set(err, -EOPNOTSUPP,
                             "The disk uses features that this program does not know (incompat bits 0x%llx). "
                             "Use a newer spacesfs.",
                             (unsigned long long)unknown);
    if (le32toh(d->bytes) != SFS_LABEL_BYTES || !body_decode(d, out)) {
        memset(out, 0, sizeof *out);
        return sfs_error_set(err, -EUCLEAN, "The spacesfs label is damaged: its contents make no sense.");
    }
    return 0;
}

int sfs_label_pick(struct sfs_label *a, int a_rc, struct sfs_label *b, int b_rc, bool *stale)
{
    *stale = false;
    if (a_rc != 0 && b_rc != 0)
        return a_rc == -ENOENT ? b_rc : a_rc;
    if (a_rc != 0) {
        /* A label of a newer format is no damage: never write over it. */
        if (a_rc == -EOPNOTSUPP)
            return a_rc;
        *a = *b;
        *stale = true;
        return 0;
    }
    if (b_rc == -EOPNOTSUPP)
        return b_rc;
    if (b_rc != 0) {
        *stale = true;
        return 0;
    }
    if (a->generation != b->generation || !sfs_uuid_equal(&a->disk_uuid, &b->disk_uuid)) {
        *stale = true;
        /* The copy of another disk is a leftover, whatever its generation. */
        if (b->generation > a->generation && sfs_uuid_equal(&a->disk_uuid, &b->disk_uuid) &&
            sfs_uuid_equal(&a->pool_uuid, &b->pool_uuid))
            *a = *b;
    }
    return 0;
}

bool sfs_meta_name_ok(const char *name)
{
    size_t len = strnlen(name, SFS_MAP_NAME);
    if (len == 0 || len >= SFS_MAP_NAME || name[0] == '.')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") == len;
}
