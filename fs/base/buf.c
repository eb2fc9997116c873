/* A pool of buffers in classes of powers of two. What the pool keeps is bounded; larger buffers are not kept.
 */
#include "fs/base/buf.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "fs/base/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BUF_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(BUF_ASAN)
#define BUF_ASAN 1
#endif
#ifdef BUF_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define ALIGNMENT 4096u
#define CLASS_MIN_SHIFT 12u /* 4 KiB */
#define CLASS_MAX_SHIFT 22u /* 4 MiB */
#define CLASSES (CLASS_MAX_SHIFT - CLASS_MIN_SHIFT + 1)
#define KEPT_MAX_BYTES ((size_t)64 << 20)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
static struct sfs_buf *kept[CLASSES];
static size_t kept_bytes;

/* CLASSES for what is too large to be kept. */
static unsigned class_of(size_t len)
{
    unsigned c = 0;

    while (c < CLASSES && ((size_t)1 << (CLASS_MIN_SHIFT + c)) < len)
        c++;
    return c;
}

static struct sfs_buf *take_kept(unsigned c)
{
    struct sfs_buf *b;

    pthread_mutex_lock(&mutex);
    b = kept[c];
    if (b) {
        kept[c] = b->next;
        kept_bytes -= b->cap;
    }
    pthread_mutex_unlock(&mutex);
    if (b)
        ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
    return b;
}

static struct sfs_buf *allocate(size_t cap)
{
    struct sfs_buf *b = calloc(1, sizeof(*b));

    if (!b)
        return NULL;
    b->data = aligned_alloc(ALIGNMENT, cap);
    if (!b->data) {
        free(b);
        return NULL;
    }
    b->cap = cap;
    return b;
}

static void release(struct sfs_buf *b)
{
    ASAN_UNPOISON_MEMORY_REGION(b->data, b->cap);
    free(b->data);
    free(b);
}

struct sfs_buf *sfs_buf_new(size_t len)
{
    unsigned c = class_of(len);
    struct sfs_buf *b = c < CLASSES ? take_kept(c) : NULL;

    if (!b) {
        if (len > SIZE_MAX - ALIGNMENT)
            return NULL;
        b = allocate(c < CLASSES ? (size_t)1 << (CLASS_MIN_SHIFT + c)
                                 : (len + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1));
        if (!b)
            return NULL;
    }
    b->len = len;
    b->next = NULL;
    __atomic_store_n(&b->refs, 1, __ATOMIC_RELAXED);
    return b;
}

struct sfs_buf *sfs_buf_ref(struct sfs_buf *b)
{
    SFS_ASSERT(__atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED) > 0);
    return b;
}

void sfs_buf_unref(struct sfs_buf *b)
{
    bool keep;
    int refs;

    if (!b)
        return;
    refs = __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL);
    SFS_ASSERT(refs >= 0);
    if (refs > 0)
        return;
    ASAN_POISON_MEMORY_REGION(b->data, b->cap);
    pthread_mutex_lock(&mutex);
    keep = b->cap <= (size_t)1 << CLASS_MAX_SHIFT && kept_bytes + b->cap <= KEPT_MAX_BYTES;
    if (keep) {
        unsigned c = class_of(b->cap);

        b->next = kept[c];
        kept[c] = b;
        kept_bytes += b->cap;
    }
    pthread_mutex_unlock(&mutex);
    if (!keep)
        release(b);
}

void sfs_buf_trim_pool(void)
{
    for (unsigned c = 0; c < CLASSES; c++) {
        struct sfs_buf *b;

        while ((b = take_kept(c)))
            release(b);
    }
}
