/* The one table of commands. */
#include "cli/command.h"

#include <stddef.h>

const struct sfs_command_group sfs_command_groups[] = {
    {"pool", "Make, find, list and destroy pools"},
    {"disk", "The disks of a pool"},
    {"job", "Orders to background jobs"},
    {"space", "The spaces of a pool, each a filesystem"},
};
const unsigned sfs_ncommand_groups = sizeof(sfs_command_groups) / sizeof(sfs_command_groups[0]);

static const struct sfs_option pool_create_options[] = {
    {"slab-size", 0, "SIZE",
     "Size of a slab, the unit of placement and repair: a power of two from 1M to 4G. "
     "Default 256M, smaller when the smallest disk would hold less than 64 of them."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option pool_import_options[] = {
    {"none-ok", 0, NULL, "Finding no pool is no failure; for the start of the system."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option space_create_options[] = {
    {"resiliency", 'r', "R",
     "What the space survives: simple (nothing), mirror2 or parity (the loss of any one disk), mirror3 or parity2 (of any two)."},
    {"size", 0, "SIZE", "Size as df will show it; 0: as large as the pool allows (the default)."},
    {"columns", 0, "N|auto", "How many disks one stripe runs across, per copy. Default auto."},
    {"interleave", 0, "SIZE", "Bytes laid on one column before the next. Default 256K."},
    {"provisioning", 0, "thin|fixed",
     "thin (the default): takes room as it is used; fixed: all at once."},
    {"compression", 0, "zstd[:LEVEL]|off",
     "Compression of what is written from now on. Default off."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option mount_options[] = {
    {"options", 'o', "OPTIONS", "Mount options, with commas between them; see mount.spacesfs(8)."},
    {"verbose", 'v', NULL, "Say what is done."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option fstab_options[] = {
    {"options", 'o', "OPTIONS", "Mount options to put into the line, with commas between them."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option umount_options[] = {
    {"lazy", 'l', NULL, "Detach the directory at once; the rest happens when nobody uses it any more."},
    {"force", 'f', NULL, "End the mount even though programs still use it; they get errors."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option events_options[] = {
    {"follow", 'f', NULL, "Go on and show events as they happen, until interrupted."},
    {"max", 'n', "N", "Show the newest N events. Default 100; 0: all there are."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option where_options[] = {
    {"pieces", 'p', NULL, "Show every run of the file, in order, instead of sums by disks."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option scrub_options[] = {
    {"wait", 'w', NULL, "Return when it is done, with a progress bar on a terminal; then show what was found."},
    {"stop", 's', NULL, "Stop the one that is under way; the next begins anew. (To go on later: spacesfs job pause.)"},
    {"report", 'r', NULL, "Show what the last one has found, or this one so far: by disk and by file."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option destroy_options[] = {
    {"wait", 'w', NULL, "Return when all that it held has been given back, with a progress bar on a terminal."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option heal_options[] = {
    {"wait", 'w', NULL, "Return when all that can be healed has been, with a progress bar on a terminal."},
    {NULL, 0, NULL, NULL}};

static const struct sfs_option job_options[] = {
    {"wait", 'w', NULL, "Return when the job has ended, with a progress bar on a terminal."},
    {NULL, 0, NULL, NULL}};

static const char disk_syntax[] =
    "DISK is PATH[,size=SIZE][,name=NAME]. PATH is a directory (its other files stay untouched), a block "
    "device or an image "
    "file. size= takes less than all there is; for an image file that doesn't exist yet it is the file's "
    "size, and the file "
    "is made. name= is how the pool calls the disk; otherwise the last part of its path.";

const struct sfs_command sfs_commands[] = {
    {"pool create", "POOL DISK...", 2, -1, SFS_OPT_FORCE | SFS_OPT_YES | SFS_OPT_JSON | SFS_OPT_BYTES,
     pool_create_options, sfs_cmd_pool_create, "Make a pool out of disks", disk_syntax},
    {"pool list", "", 0, 0, SFS_OPT_JSON | SFS_OPT_BYTES, NULL, sfs_cmd_pool_list,
     "List the pools known on this host", "A pool is known from being made or imported here."},
    {"pool status", "[POOL]", 0, 1, SFS_OPT_JSON | SFS_OPT_BYTES | SFS_OPT_WATCH, NULL, sfs_cmd_status,
     "The same as `spacesfs status`",
     "Exit status: 0 healthy, 1 degraded, 2 data at risk or lost, 3 could not tell."},
    {"pool import", "[PATH...]", 0, -1, SFS_OPT_JSON, pool_import_options, sfs_cmd_pool_import,
     "Find pools on disks and remember them",
     "Each PATH is a disk, or a directory in which disks are looked for. Without one, all block devices and "
     "mounted "
     "directories are looked at. Disks are known by their labels, wherever they are now."},
    {"pool export", "POOL", 1, 1, SFS_OPT_JSON, NULL, sfs_cmd_pool_export,
     "Forget a pool on this host; its disks keep everything",
     "Refused while a space of it is mounted. `spacesfs pool import` makes it known again, here or on "
     "another host."},
    {"pool destroy", "POOL", 1, 1, SFS_OPT_YES | SFS_OPT_JSON, NULL, sfs_cmd_pool_destroy,
     "Destroy a pool and everything stored in it",
     "Takes the pool's labels and slabs off all its disks. Refused while a space of it is mounted. Asks "
     "first, unless --yes is "
     "given."},
    {"pool set", "POOL KEY=VALUE...", 2, -1, SFS_OPT_JSON, NULL, sfs_cmd_pool_set,
     "Change properties of a pool",
     "heal-delay=DURATION: how long a lost disk may take to come back before the pool heals without it (5m "
     "by default; 30s, 1h, "
     "2d ...).\njob-rate=auto|unlimited|SIZE: how fast background jobs may move data, in bytes a second. auto (the "
     "default): full speed while no program reads or writes, a quarter otherwise.\nerror-limit=N: a disk with more "
     "read, write and checksum errors than that is retired by itself (100 by default; 0: never).\nscrub-every=off|DURATION: how "
     "often the pool is scrubbed by itself (30d by default; 1h at least)."},
    {"pool get", "POOL [KEY...]", 1, -1, SFS_OPT_JSON, NULL, sfs_cmd_pool_get, "Show properties of a pool",
     "Keys are those of `spacesfs pool set`. Without one, all are shown."},
    {"disk list", "POOL", 1, 1, SFS_OPT_JSON | SFS_OPT_BYTES, NULL, sfs_cmd_disk_list,
     "List the disks of a pool", NULL},
    {"disk add", "POOL DISK...", 2, -1, SFS_OPT_FORCE | SFS_OPT_YES | SFS_OPT_JSON, NULL, sfs_cmd_disk_add,
     "Add disks to a pool", disk_syntax},
    {"disk remove", "POOL DISK", 2, 2, SFS_OPT_JSON, job_options, sfs_cmd_disk_remove,
     "Move everything off a disk and take it out of the pool",
     "A job moves what the disk holds to the other disks while all is in use; then the disk's label and files are "
     "taken off it. Refused at once, with the numbers, when the others cannot hold it. The disk may be gone already, as "
     "long as everything on it has other copies."},
    {"disk replace", "POOL OLD NEW", 3, 3, SFS_OPT_FORCE | SFS_OPT_YES | SFS_OPT_JSON, job_options, sfs_cmd_disk_replace,
     "Put a disk in the place of another",
     "NEW is a disk of the pool (a hot spare, for example) or a new one, as in `spacesfs disk add`. It may be smaller than "
     "OLD if what OLD holds fits on it and the others. OLD may be gone already; what it held is then built anew from other "
     "copies."},
    {"disk forget", "POOL DISK", 2, 2, SFS_OPT_YES | SFS_OPT_JSON, NULL, sfs_cmd_disk_forget,
     "Give up a disk that will never return",
     "Says first what would be lost, and asks, unless --yes is given. What has other copies is built anew; what was only on "
     "that disk is lost, and reading it gives an error."},
    {"disk set", "POOL DISK KEY=VALUE...", 3, -1, SFS_OPT_JSON, job_options, sfs_cmd_disk_set,
     "Change settings of a disk",
     "name=NAME: what the disk is called.\nusage=auto: it takes data. usage=journal: it is kept for small and synchronous "
     "writes. usage=hot-spare: it is kept empty until another disk is lost, then takes its place at once. usage=retired: it "
     "takes no new data, and what it holds is moved to the others.\ncapacity=SIZE: how much the disk gives to the pool; "
     "raised at once, lowered once what lies beyond has been moved."},
    {"job pause", "POOL JOB", 2, 2, SFS_OPT_JSON, NULL, sfs_cmd_job_pause, "Pause a job",
     "It stays paused, also over restarts, until it is resumed. JOB is its number, as `spacesfs jobs` shows it."},
    {"job resume", "POOL JOB", 2, 2, SFS_OPT_JSON, NULL, sfs_cmd_job_resume, "Let a paused job go on", NULL},
    {"job cancel", "POOL JOB", 2, 2, SFS_OPT_JSON, NULL, sfs_cmd_job_cancel, "End a job before it is done",
     "What it has moved stays where it is; a disk that was to be removed is used again."},
    {"space create", "POOL/SPACE", 1, 1, SFS_OPT_JSON, space_create_options, sfs_cmd_space_create,
     "Make a space in a pool", "--resiliency must be given."},
    {"space list", "[POOL]", 0, 1, SFS_OPT_JSON | SFS_OPT_BYTES, NULL, sfs_cmd_space_list,
     "List spaces, of one pool or of all", NULL},
    {"space set", "POOL/SPACE KEY=VALUE...", 2, -1, SFS_OPT_YES | SFS_OPT_JSON, job_options, sfs_cmd_space_set,
     "Change settings of a space",
     "Keys: resiliency, size, columns, interleave, provisioning, compression, with values as in `spacesfs "
     "space create`. New data takes the new settings at once. When resiliency, columns or interleave change, a job "
     "converts what is stored while it is in use; refused, with the numbers, when the disks cannot carry that. Lower "
     "redundancy is asked first, unless --yes is given. Compression is for new data only."},
    {"space rename", "POOL/SPACE NEWNAME", 2, 2, SFS_OPT_JSON, NULL, sfs_cmd_space_rename,
     "Give a space another name", "Remember the lines of /etc/fstab that name it."},
    {"space destroy", "POOL/SPACE", 1, 1, SFS_OPT_YES | SFS_OPT_JSON, destroy_options, sfs_cmd_space_destroy,
     "Destroy a space and all files in it",
     "It is gone at once, and its name is free; what it held is given back in the background. Refused while it "
     "is mounted. Asks first, unless --yes is given."},
    {"mount", "POOL/SPACE DIR", 2, 2, 0, mount_options, sfs_cmd_mount, "Mount a space on a directory",
     "POOL is a pool's name known on this host, or the path of any of its disks. Starts the pool's daemon "
     "where none runs. The same "
     "as `mount -t spacesfs`."},
    {"umount", "DIR", 1, 1, 0, umount_options, sfs_cmd_umount,
     "End a mount; returns when everything is stored", NULL},
    {"fstab", "POOL/SPACE DIR", 2, 2, 0, fstab_options, sfs_cmd_fstab,
     "Print the /etc/fstab line that mounts a space",
     "At boot the line waits for the filesystems on which member directories and image files lie."},
    {"status", "[POOL]", 0, 1, SFS_OPT_JSON | SFS_OPT_BYTES | SFS_OPT_WATCH, NULL, sfs_cmd_status,
     "How a pool is: verdict, disks, spaces, jobs",
     "Without POOL: every pool known on this host. Exit status: 0 healthy, 1 degraded, 2 data at risk or "
     "lost, 3 could not tell; of "
     "several pools, the worst."},
    {"jobs", "POOL", 1, 1, SFS_OPT_JSON | SFS_OPT_WATCH, NULL, sfs_cmd_jobs,
     "Background work: what runs, what ran", NULL},
    {"events", "POOL", 1, 1, SFS_OPT_JSON, events_options, sfs_cmd_events,
     "What happened to a pool: disks lost, healing, errors", "With --json: one object a line."},
    {"heal", "POOL", 1, 1, SFS_OPT_JSON, heal_options, sfs_cmd_heal,
     "Restore lost redundancy now, without the usual delay",
     "While the pool is mounted, healing runs in the background; --wait waits for its end. When it is not "
     "mounted, this command "
     "heals, and returns when it is done."},
    {"optimize", "POOL", 1, 1, SFS_OPT_JSON, job_options, sfs_cmd_optimize,
     "Lay out everything as it would be laid out now",
     "A job moves what was written with other settings, or when there were fewer disks, and spreads data evenly over "
     "the disks, while all is in use. When the pool is not mounted, this command does it, and returns when it is done."},
    {"damage", "POOL", 1, 1, SFS_OPT_JSON | SFS_OPT_BYTES, NULL, sfs_cmd_damage,
     "List the files that can't be read in full",
     "damaged: no good copy is left of some of the data; restore the file from a backup, or delete it. "
     "missing: the data lies on disks that are missing, and comes back with them. The list is kept with the "
     "pool; a file leaves it when it is rewritten, deleted, or good again. Exit status: 0 none, 1 some."},
    {"scrub", "POOL", 1, 1, SFS_OPT_JSON | SFS_OPT_BYTES, scrub_options, sfs_cmd_scrub,
     "Read every copy of everything, compare, and repair what is bad",
     "Runs in the background, and leaves programs their share of the disks. It goes on after a restart. By "
     "itself a pool is scrubbed once a month: see scrub-every in `spacesfs pool set`. When the pool is not "
     "mounted, this command scrubs, and returns when it is done."},
    {"impact", "POOL DISK", 2, 2, SFS_OPT_JSON | SFS_OPT_BYTES, NULL, sfs_cmd_impact,
     "What would be lost, or at risk, if a disk went now",
     "And whether the other disks could heal it. Changes nothing. Exit status: 0 nothing would be lost, 1 "
     "something would be, or it could not be told."},
    {"where", "FILE...", 1, -1, SFS_OPT_JSON | SFS_OPT_BYTES, where_options, sfs_cmd_where,
     "Which disks hold a file, and in what state", "FILE is a file in a mounted space."},
    {"metrics", "[POOL]", 0, 1, 0, NULL, sfs_cmd_metrics, "The state of pools as metrics for Prometheus",
     "Without POOL: every pool known on this host. One that can't be read has spacesfs_pool_up 0, and the reason "
     "stands on standard error."},
    {"completion", "bash|zsh", 1, 1, 0, NULL, sfs_cmd_completion, "Print the script by which a shell completes commands",
     "It comes from the same table as this help. A package puts it where the shells look; else: eval \"$(spacesfs "
     "completion bash)\" in ~/.bashrc, or spacesfs completion zsh > a file _spacesfs in a directory of $fpath."},
};
const unsigned sfs_ncommands = sizeof(sfs_commands) / sizeof(sfs_commands[0]);
