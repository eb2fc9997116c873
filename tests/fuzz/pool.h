/* A small pool on sim disks for the fuzz targets: made once, put back before each input. */
#ifndef SFS_TESTS_FUZZ_POOL_H
#define SFS_TESTS_FUZZ_POOL_H

#include "fs/disk/sim.h"
#include "fs/pool/pool.h"
#include "fs/vfs/vfs.h"

struct fuzz_pool {
    struct sfs_env *env;
    struct sfs_sim_world *world;
    const uint8_t *data; /* the input */
    size_t size;
};

/* Runs body in a simulated machine with two disks, "a" and "b", that hold a pool "tank" with a mirrored space "s" and a few files of every kind in it: as it was made, whatever
 * the inputs before have done to it. */
void fuzz_pool_run(const uint8_t *data, size_t size, void (*body)(struct fuzz_pool *));
/* NULL: it could not be opened, which is fine for what was tampered with. */
struct sfs_pool *fuzz_pool_open(struct fuzz_pool *f, bool readonly);
/* Reads all names, attributes and contents of a space; writes a little if it can. */
void fuzz_pool_use(struct sfs_pool *p, const char *space);

#endif
