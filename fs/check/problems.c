/* The words for every fault, how grave it is, and what is done about it. How it is found and mended: meta/audit_sql.c. */
#include "fs/check/check_impl.h"

#include <stdio.h>
#include <string.h>

#define SAFE SFS_SEVERITY_SAFE
#define LOSS SFS_SEVERITY_LOSS
#define DROP_NAME "take the names away; what is left without one goes to lost+found"
#define NO_SLAB "take the slabs for missing, so that they are built anew from their other copies"
#define LOST "give the bytes up: reading them is an I/O error from now on, the rest of the file is kept"

const struct sfs_check_words sfs_check_words[SFS_FAULT_COUNT] = {
    [SFS_FAULT_POOL_ROW] = {"pool-row", "The pool's name or uuid in the catalog, other than on the labels", "the catalog says {t}", "take both from the labels", LOSS},
    [SFS_FAULT_PROP_BAD] = {"property-bad", "Properties of the pool that nobody could have set", "{t}", "put them back to what is usual", SAFE},
    [SFS_FAULT_DISK_UUID] = {"disk-uuid", "Disks that the catalog knows under another uuid", "{t}: the catalog doesn't have the uuid that its label says", "take the uuid from the label", SAFE},
    [SFS_FAULT_DISK_BAD] = {"disk-bad", "Disks whose row in the catalog makes no sense", "disk {a} ({t})", "set what makes no sense to what is usual", SAFE},
    [SFS_FAULT_DISK_CAPACITY] = {"disk-capacity", "Disks of another size than the catalog says", "{t}: it has {b} slots, the catalog says {c}", "take the size from the label", SAFE},
    [SFS_FAULT_SPACE_BAD] = {"space-bad", "Spaces whose settings make no sense", "space {a} ({t})", "set what makes no sense to what is usual", LOSS},
    [SFS_FAULT_SPACE_LOST] = {"space-lost", "Spaces that the catalog has lost", "space {a}: {b} files and directories belong to it", "make the space again as recovered-N, with the settings that its data has", LOSS},
    [SFS_FAULT_GROUP_GEOMETRY] = {"group-geometry", "Slab groups with an impossible geometry", "group {a}: nobody can tell where its data is", "give the groups up; reading what was in them is an I/O error from now on", LOSS},
    [SFS_FAULT_GROUP_BAD] = {"group-bad", "Slab groups of an unknown kind or state", "group {a}", "seal them", SAFE},
    [SFS_FAULT_GROUP_SPACE] = {"group-space", "Slab groups of no space", "group {a}: there is no space {b}", "give them to the space that their data belongs to, or free them where they are empty", SAFE},
    [SFS_FAULT_SLAB_GROUP] = {"slab-group", "Slabs of no slab group", "slab {b}.{c} of group {a}", "free them", SAFE},
    [SFS_FAULT_SLAB_PLACE] = {"slab-place", "Slabs outside of their group's geometry", "slab {b}.{c} of group {a}", "free them", SAFE},
    [SFS_FAULT_SLAB_DISK] = {"slab-disk", "Slabs on a disk that the pool doesn't have", "slab {b}.{c} of group {a}: on disk {t}", NO_SLAB, SAFE},
    [SFS_FAULT_SLAB_SLOT] = {"slab-slot", "Slabs beyond the end of their disk", "slab {b}.{c} of group {a}: on {t}", NO_SLAB, LOSS},
    [SFS_FAULT_SLAB_CLAIMED] = {"slab-claimed", "Slabs where a disk keeps its metadata", "slab {b}.{c} of group {a}: on {t}", NO_SLAB, LOSS},
    [SFS_FAULT_SLAB_TWICE] = {"slab-twice", "Slabs that share their place on a disk with another", "slab {b}.{c} of group {a}: on {t}", "leave the place to the one whose checksums hold there (to the youngest, where they don't tell), and take the others for missing", LOSS},
    [SFS_FAULT_SLAB_SAME_DISK] = {"slab-same-disk", "Slabs on a disk that holds another of the same group: less redundancy than promised", "slab {b}.{c} of group {a}: on {t}", NO_SLAB, SAFE},
    [SFS_FAULT_SLAB_ROW] = {"slab-row", "Slabs of which the catalog doesn't say where they are", "slab {b}.{c} of group {a}", NO_SLAB, SAFE},
    [SFS_FAULT_SLAB_ABSENT] = {"slab-absent", "Slabs that are not on their disk", "slab {b}.{c} of group {a}: not on {t}", NO_SLAB, LOSS},
    [SFS_FAULT_INODE_BAD] = {"inode-bad", "Files and directories whose attributes make no sense", "{p} (inode {a})", "set what makes no sense to what is usual", SAFE},
    [SFS_FAULT_SPACE_ROOT] = {"space-root", "Spaces without a root directory", "space {t}", "make a root directory; what was in the old one goes to lost+found", LOSS},
    [SFS_FAULT_EXTENT_INODE] = {"extent-inode", "Contents of files that have no inode", "inode {a}: {b} extents", "make files of them in lost+found", LOSS},
    [SFS_FAULT_INLINE_INODE] = {"inline-inode", "Contents of small files that have no inode", "inode {a}: {b} bytes", "make files of them in lost+found", LOSS},
    [SFS_FAULT_XATTR_INODE] = {"xattr-inode", "Extended attributes of no file", "inode {a}: {b} of them", "delete them", LOSS},
    [SFS_FAULT_DENTRY_NAME] = {"name-bad", "Names that cannot be", "in {p}: name {t} (hexadecimal) of inode {c}", DROP_NAME, LOSS},
    [SFS_FAULT_DENTRY_INODE] = {"name-inode", "Names of files that are not there", "{p}/{t}: there is no inode {c}", "take the names away", LOSS},
    [SFS_FAULT_DENTRY_NOTDIR] = {"name-notdir", "Names in what is no directory", "in {p} (inode {a}): {t}", DROP_NAME, LOSS},
    [SFS_FAULT_DENTRY_PARENT] = {"name-parent", "Names in directories that are not there", "directory {a}: {b} names", "make the directories again, in lost+found", LOSS},
    [SFS_FAULT_INODE_SPACE] = {"inode-space", "Files and directories of no space", "{p} (inode {a})", "give them to the space that their directory is in", SAFE},
    [SFS_FAULT_DENTRY_SPACE] = {"name-space", "Names in another space than their file", "{p}/{t}: inode {c}", DROP_NAME, LOSS},
    [SFS_FAULT_DENTRY_ROOT] = {"name-root", "Names of root directories", "{p}/{t}", "take the names away", SAFE},
    [SFS_FAULT_DENTRY_TWICE] = {"name-twice", "Names that a directory has twice", "{p}/{t}: also names inode {c}", DROP_NAME, LOSS},
    [SFS_FAULT_DENTRY_COOKIE] = {"name-cookie", "Names that looking them up doesn't find", "{p}/{t}", "put them where they are found", SAFE},
    [SFS_FAULT_DENTRY_TYPE] = {"name-type", "Names that say another type than their inode", "{p}", "take the type from the inode", SAFE},
    [SFS_FAULT_DIR_TWICE] = {"directory-twice", "Directories with a second name", "{p}/{t}: also names directory {c}", "keep the name that \"..\" leads to", SAFE},
    [SFS_FAULT_DIR_LOOP] = {"directory-loop", "Directories that contain themselves", "directory {a}", "move one of each ring to lost+found", SAFE},
    [SFS_FAULT_DIR_PARENT] = {"directory-parent", "Directories whose \"..\" leads elsewhere", "directory {a}: its name is in {p} ({b}), \"..\" leads to {c}", "let \"..\" lead to where the name is", SAFE},
    [SFS_FAULT_INLINE_BAD] = {"inline-bad", "Contents in the catalog that cannot be", "{p} (inode {a}): {b} bytes", "delete them; reading them is an I/O error from now on", LOSS},
    [SFS_FAULT_INLINE_EXTENT] = {"inline-extent", "Contents that are in the catalog and on disks as well", "{p} (inode {a})", "keep those on disks, which are newer", SAFE},
    [SFS_FAULT_EXTENT_TYPE] = {"extent-type", "Contents of what has none", "{p} (inode {a}): {b} extents", "free them", LOSS},
    [SFS_FAULT_SYMLINK_EMPTY] = {"symlink-empty", "Symbolic links without a target", "{p} (inode {a})", "delete them", LOSS},
    [SFS_FAULT_XATTR_BAD] = {"xattr-bad", "Extended attributes that cannot be", "{p} (inode {a}): {t} (hexadecimal)", "delete them", LOSS},
    [SFS_FAULT_XATTR_FLAG] = {"xattr-flag", "Files whose extended attributes don't show", "{p} (inode {a})", "let them show", SAFE},
    [SFS_FAULT_UNATTACHED] = {"unattached", "Files and directories without a name", "inode {a}, in space {t}", "move them to lost+found", SAFE},
    [SFS_FAULT_NLINK] = {"nlink", "Wrong link counts", "{p} (inode {a}): says {c}, has {b}", "set them to what is there", SAFE},
    [SFS_FAULT_EXTENT_BAD] = {"extent-bad", "Extents that cannot be", "{p} (inode {a}) at byte {b}", LOST, LOSS},
    [SFS_FAULT_EXTENT_GROUP] = {"extent-group", "Extents in no slab group", "{p} (inode {a}) at byte {b}: there is no group {c}", LOST, LOSS},
    [SFS_FAULT_EXTENT_END] = {"extent-end", "Extents beyond the end of their slab group", "{p} (inode {a}) at byte {b}: in group {c}", LOST, LOSS},
    [SFS_FAULT_EXTENT_OVERLAP] = {"extent-overlap", "Bytes of files for which there are two extents", "{p} (inode {a}) from byte {c}", "give those bytes up, for nobody knows which extent is right: reading them is an I/O error from now on", LOSS},
    [SFS_FAULT_EXTENT_SHARED] = {"extent-shared", "Extents that share their place with other contents", "{p} (inode {a}) at byte {b}: in group {c}", "keep those whose checksums hold, and give the others up", LOSS},
    [SFS_FAULT_SECTORS] = {"sectors", "Wrong sizes on disk, as `du` shows them", "{p} (inode {a}): says {c} units of 512 bytes, takes {b}", "set them to what is there", SAFE},
    [SFS_FAULT_GROUP_FOREIGN] = {"group-foreign", "Slab groups that hold only data of another space", "group {a}: it says space {c}, its data belongs to {b}", "give them to that space", SAFE},
    [SFS_FAULT_SPACE_COUNT] = {"space-count", "Wrong counts of files", "space {t}: says {c}, has {b}", "set them to what is there", SAFE},
    [SFS_FAULT_COUNTER] = {"counter", "Counters that would use a number twice", "a number that is given out next is in use already", "set them behind what is in use", SAFE},
    [SFS_FAULT_DAMAGE_BAD] = {"damage-bad", "Notes about damaged data that make no sense", "at {a}", "delete them", SAFE},
    [SFS_FAULT_JOB_BAD] = {"job-bad", "Jobs that make no sense", "job {a}", "delete them", SAFE},
    [SFS_FAULT_EVENT_BAD] = {"event-bad", "Events that make no sense", "event {a}", "delete them", SAFE},
};

static const char *field(char key, const struct sfs_audit_item *item, char number[24])
{
    int64_t v = key == 'a' ? item->a : key == 'b' ? item->b : item->c;
    if (key == 't')
        return item->text;
    if (key == 'p')
        return item->path[0] ? item->path : "(no name)";
    snprintf(number, 24, "%lld", (long long)v);
    return number;
}

void sfs_check_item_text(const char *template, const struct sfs_audit_item *item, char *out, size_t cap)
{
    size_t at = 0;
    for (const char *p = template; *p && at + 1 < cap;) {
        char number[24];
        if (p[0] != '{' || !p[1] || p[2] != '}') {
            if (p[0] != '/' || at == 0 || out[at - 1] != '/') /* below a root */
                out[at++] = *p;
            p++;
            continue;
        }
        int n = snprintf(out + at, cap - at, "%s", field(p[1], item, number));
        at = at + (size_t)n < cap ? at + (size_t)n : cap - 1;
        p += 3;
    }
    out[at] = '\0';
}
