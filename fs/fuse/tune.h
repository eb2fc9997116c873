/* What the kernel lets root set for one mount beside the FUSE protocol. */
#ifndef SFS_FUSE_TUNE_H
#define SFS_FUSE_TUNE_H

/* Best effort: without the right to it, the kernel's defaults stay. */
void sfs_fuse_tune(const char *dir);

#endif
