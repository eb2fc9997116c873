/* torrent write|check|pieces FILE SIZE SEED [sync]: see torrent.sh. Pieces are of 256 KiB, in an order that
 * follows from the seed; every third goes through a mapping. sync: each is synced, then its number is
 * printed. pieces: those whose numbers come on stdin must be right. */
#include <errno.h>
#include <error.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/mount/stream.h"

#define PIECE (256u << 10)

static uint64_t size, seed, npieces;
static uint8_t want[PIECE], got[PIECE];

static size_t length(uint64_t piece)
{
    return piece + 1 < npieces ? PIECE : (size_t)(size - piece * PIECE);
}

static void check(int fd, uint64_t piece)
{
    size_t len = length(piece);

    stream_fill(seed, piece * PIECE, want, len);
    if (pread(fd, got, len, (off_t)(piece * PIECE)) != (ssize_t)len)
        error(1, errno, "piece %lu cannot be read", piece);
    if (memcmp(want, got, len) != 0)
        error(1, 0, "piece %lu is wrong, from its byte %zu on", piece,
              stream_differs(seed, piece * PIECE, got, len));
}

static void write_piece(int fd, uint64_t piece, bool mapped)
{
    size_t len = length(piece);

    stream_fill(seed, piece * PIECE, want, len);
    if (!mapped) {
        if (pwrite(fd, want, len, (off_t)(piece * PIECE)) != (ssize_t)len)
            error(1, errno, "piece %lu", piece);
        return;
    }
    uint8_t *p = mmap(NULL, len, PROT_WRITE, MAP_SHARED, fd, (off_t)(piece * PIECE));
    if (p == MAP_FAILED)
        error(1, errno, "mapping of piece %lu", piece);
    memcpy(p, want, len);
    if (munmap(p, len) < 0)
        error(1, errno, "piece %lu", piece);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    return b ? gcd(b, a % b) : a;
}

static void write_all(const char *file, bool sync)
{
    int fd[2] = {open(file, O_RDWR | O_CREAT, 0644), open(file, O_RDWR)};
    uint64_t step = npieces / 3 + 1, at = seed % npieces;

    if (fd[0] < 0 || fd[1] < 0)
        error(1, errno, "%s", file);
    errno = posix_fallocate(fd[0], 0, (off_t)size);
    if (errno)
        error(1, errno, "%s cannot be preallocated", file);
    while (gcd(step, npieces) != 1) /* so that it comes to every piece */
        step++;
    for (uint64_t k = 0; k < npieces; k++, at = (at + step) % npieces) {
        write_piece(fd[k % 2], at, k % 3 == 0);
        if (k % 7 == 0)
            check(fd[(k + 1) % 2], at);
        if (!sync)
            continue;
        if (fsync(fd[k % 2]) < 0)
            exit(0); /* killed: expected */
        printf("%lu\n", at);
    }
    if (!sync && fsync(fd[0]) < 0)
        error(1, errno, "fsync");
}

int main(int argc, char **argv)
{
    unsigned long piece;

    if (argc < 5)
        error(2, 0, "usage: torrent write|check|pieces FILE SIZE SEED [sync]");
    size = strtoull(argv[3], NULL, 0);
    seed = strtoull(argv[4], NULL, 0);
    npieces = (size + PIECE - 1) / PIECE;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(argv[1], "write") == 0) {
        write_all(argv[2], argc > 5);
        return 0;
    }
    int fd = open(argv[2], O_RDONLY);
    if (fd < 0)
        error(1, errno, "%s", argv[2]);
    if (strcmp(argv[1], "check") == 0)
        for (uint64_t k = 0; k < npieces; k++)
            check(fd, k);
    else
        while (scanf("%lu", &piece) == 1 && piece < npieces)
            check(fd, piece);
    return 0;
}
