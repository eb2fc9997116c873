/* What the fuzz targets share: libFuzzer's entry point, and input that is read as patches on something valid. */
#ifndef SFS_TESTS_FUZZ_H
#define SFS_TESTS_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A promise of the code under test that does not hold. */
#define FUZZ_CHECK(cond)                                                                                     \
    do {                                                                                                     \
        if (!(cond)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                                       \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* Input from its front. What is missing at the end is zero. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

static inline uint32_t fuzz_take(struct fuzz_input *in, unsigned bytes)
{
    uint32_t v = 0;
    for (unsigned i = 0; i < bytes && in->left; i++, in->at++, in->left--)
        v |= (uint32_t)*in->at << (8 * i);
    return v;
}

/* One patch: where (3 bytes), how long (1 byte), then the bytes. False when the input is used up. */
static inline bool fuzz_patch(struct fuzz_input *in, uint8_t *onto, size_t len, size_t *where)
{
    if (in->left < 5 || len == 0)
        return false;
    size_t off = fuzz_take(in, 3) % len, n = fuzz_take(in, 1) % 64 + 1;
    for (size_t i = 0; i < n && off + i < len && in->left; i++)
        onto[off + i] = (uint8_t)fuzz_take(in, 1);
    *where = off;
    return true;
}

/* Input as text: with a NUL behind it. free() it. */
static inline char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    FUZZ_CHECK(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

#endif
