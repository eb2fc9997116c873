/* overwrite write FILE BLOCKS WRITES SEED [SYNC]: overwrites random blocks of a file that has BLOCKS of them, WRITES times; fsync after every SYNC writes, and at the end. Begins by writing all in order (in large writes) when the file is empty.
 * overwrite check FILE BLOCKS WRITES SEED: each block is what the last write of that sequence made it. */
#include "tests/mount/stream.h"

#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, LARGE = 256 };

static void fill(uint64_t *p, uint64_t seed, uint64_t block, uint64_t version)
{
    for (uint64_t i = 0; i < BLOCK / 8; i++)
        p[i] = stream_word(seed + version * 1000003, block * (BLOCK / 8) + i);
}

static uint64_t pick(uint64_t seed, uint64_t n, uint64_t blocks)
{
    return stream_word(seed ^ 0x5eed, n) % blocks;
}

static void put(int fd, const void *p, size_t len, uint64_t off)
{
    if (pwrite(fd, p, len, (off_t)off) != (ssize_t)len)
        error(2, errno, "writing");
}

static void first(int fd, uint64_t blocks, uint64_t seed)
{
    static uint64_t large[LARGE][BLOCK / 8];
    for (uint64_t b = 0; b < blocks; b += LARGE) {
        uint64_t n = blocks - b < LARGE ? blocks - b : LARGE;
        for (uint64_t i = 0; i < n; i++)
            fill(large[i], seed, b + i, 0);
        put(fd, large, n * BLOCK, b * BLOCK);
    }
    if (fsync(fd))
        error(2, errno, "fsync");
}

int main(int argc, char **argv)
{
    static uint64_t one[BLOCK / 8], back[BLOCK / 8];
    if (argc < 6)
        error(2, 0, "usage: overwrite write|check FILE BLOCKS WRITES SEED [SYNC]");
    uint64_t blocks = strtoull(argv[3], NULL, 10), writes = strtoull(argv[4], NULL, 10), seed = strtoull(argv[5], NULL, 10);
    uint64_t sync = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
    int fd = open(argv[2], O_RDWR | O_CREAT, 0644);
    if (fd < 0)
        error(2, errno, "%s", argv[2]);
    if (!strcmp(argv[1], "write")) {
        if (lseek(fd, 0, SEEK_END) == 0)
            first(fd, blocks, seed);
        for (uint64_t n = 1; n <= writes; n++) {
            uint64_t b = pick(seed, n, blocks);
            fill(one, seed, b, n);
            put(fd, one, BLOCK, b * BLOCK);
            if (sync && n % sync == 0 && fsync(fd))
                error(2, errno, "fsync");
        }
        return fsync(fd) ? 2 : 0;
    }
    uint64_t *version = calloc(blocks, sizeof(*version));
    if (!version)
        return 2;
    for (uint64_t n = 1; n <= writes; n++)
        version[pick(seed, n, blocks)] = n;
    for (uint64_t b = 0; b < blocks; b++) {
        fill(one, seed, b, version[b]);
        if (pread(fd, back, BLOCK, (off_t)(b * BLOCK)) != BLOCK || memcmp(one, back, BLOCK))
            error(1, 0, "%s: block %llu is not what was written last", argv[2], (unsigned long long)b);
    }
    return 0;
}
