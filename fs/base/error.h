/* Errors: four classes, never mixed (fs/README.md).
 *   a bug           SFS_ASSERT: aborts, in release builds too
 *   operating error a negative errno as return value
 *   bad bytes       -EUCLEAN from what reads disks, and a health event; never an assert
 *   doubt about committed state: the pool turns read-only, sticky (fs/data/commit.h)
 * A function that a person asked for also fills a `struct sfs_error`: text that names the thing, says why and what to do. */
#ifndef SFS_BASE_ERROR_H
#define SFS_BASE_ERROR_H

#include <errno.h>

struct sfs_error {
    int code;         /* negative errno, 0 when unset */
    char text[1024];  /* one or more sentences, UTF-8, no newline at the end */
};

/* Fills *e (may be NULL) and returns code, so that one can write `return sfs_error_set(e, -EINVAL, "...")`.
 * code is a negative errno. A text that is already set is replaced. */
int sfs_error_set(struct sfs_error *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

void sfs_bug(const char *file, int line, const char *what) __attribute__((noreturn));
#define SFS_ASSERT(cond) ((cond) ? (void)0 : sfs_bug(__FILE__, __LINE__, #cond))

#endif
