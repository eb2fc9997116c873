/* spacesfs impact: what it would mean if a disk went now. */
#include "cli/command.h"

#include <string.h>
#include "cli/request.h"
#include "cli/table.h"
#include "fs/base/size.h"

struct sums {
    uint64_t lost_files, lost_bytes, risk_files, weaker_files;
};

static void sum_cell(const struct sfs_cli *c, struct sfs_table *t, const json_t *space, const char *key,
                     enum sfs_tone tone)
{
    const json_t *sum = json_object_get(space, key);
    uint64_t n = sfs_json_u64(sum, "files"), size = sfs_json_u64(sum, "bytes");
    char text[24];
    if (n)
        sfs_table_cell(t, tone, "%llu file%s, %s", (unsigned long long)n, n == 1 ? "" : "s",
                       sfs_ui_size(c, size, text));
    else
        sfs_table_cell(t, SFS_TONE_DIM, "-");
}

static void print_spaces(const struct sfs_cli *c, const json_t *impact)
{
    static const struct sfs_column columns[] = {{"SPACE", false, NULL, SFS_FIT_CUT_END},
                                                {"RESILIENCY", false, NULL, SFS_FIT_DROP},
                                                {"LOST", false, "-", SFS_FIT_KEEP},
                                                {"ONE LOSS AWAY FROM IT", false, "-", SFS_FIT_KEEP},
                                                {"STILL SAFE", false, "-", SFS_FIT_KEEP}};
    struct sfs_table *t = sfs_table_new(columns, 5);
    size_t i;
    json_t *space;
    json_array_foreach(sfs_json_array(impact, "spaces"), i, space)
    {
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "name"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(space, "resiliency"));
        sum_cell(c, t, space, "lost", SFS_TONE_BAD);
        sum_cell(c, t, space, "at_risk", SFS_TONE_WARN);
        sum_cell(c, t, space, "weaker", SFS_TONE_PLAIN);
    }
    if (sfs_table_rows(t)) {
        putchar('\n');
        sfs_table_print(t, stdout, 2);
    }
    sfs_table_free(t);
}

#define EXAMPLES 5u

static void print_examples(const json_t *impact, const struct sums *sums)
{
    char clean[2048];
    size_t i;
    json_t *e;
    if (!json_array_size(sfs_json_array(impact, "examples")))
        return;
    printf("\n  %s, for example:\n", sums->lost_files ? "Lost" : "One loss away from it");
    json_array_foreach(sfs_json_array(impact, "examples"), i, e)
        if (i < EXAMPLES)
            printf("    %s%s\n", sfs_json_text(e, "space"),
               sfs_ui_clean(sfs_json_text(e, "path"), clean, sizeof(clean)));
}

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* Without a catalog nobody knows where anything is, and the small files lie in it. */
static bool all_would_go(const json_t *impact)
{
    return sfs_json_true(impact, "online") && !sfs_json_u64(impact, "replicas_left");
}

static void print_verdict(const struct sfs_cli *c, const json_t *impact, const struct sums *sums)
{
    char text[600], size[24];
    unsigned long long lost = sums->lost_files, risk = sums->risk_files;
    bool online = sfs_json_true(impact, "online");
    if (all_would_go(impact))
        snprintf(text, sizeof(text), "Everything would be lost: it holds the only copy of the pool's catalog, which says where all files are. "
                                     "Connect or add another disk: a copy is made there by itself.");
    else if (lost)
        snprintf(text, sizeof(text), "%llu file%s, %s of %s data, %s be read without it. Programs get I/O errors there.",
                 lost, plural(lost), sfs_ui_size(c, sums->lost_bytes, size), lost == 1 ? "its" : "their",
                 online ? "could not" : "cannot");
    else if (risk)
        snprintf(text, sizeof(text), "Nothing %s lost. Until the pool has healed, the loss of one more disk "
                                     "could cost %llu file%s.",
                 online ? "would be" : "is", risk, plural(risk));
    else if (sums->weaker_files)
        snprintf(text, sizeof(text), "Nothing %s lost, and the loss of one more disk could be borne, too.",
                 online ? "would be" : "is");
    else
        snprintf(text, sizeof(text), "Nothing %s lost: it holds no data of files.", online ? "would be" : "is");
    printf("  ");
    sfs_ui_wrap(text, 2, 2);
}

static void print_healing(const json_t *impact, bool online)
{
    unsigned long long slabs = sfs_json_u64(impact, "slabs"), placed = sfs_json_u64(impact, "slabs_placed"),
                       hopeless = sfs_json_u64(impact, "slabs_hopeless"),
                       replicas = sfs_json_u64(impact, "replicas_left");
    char text[600];
    const char *would = online ? "would" : "will";
    int n = 0;
    if (all_would_go(impact))
        return;
    if (!slabs)
        n = snprintf(text, sizeof(text), "There %s nothing to heal.", online ? "would be" : "is");
    else if (sfs_json_true(impact, "can_heal") && !hopeless)
        n = snprintf(text, sizeof(text), "The other disks have room for all that it holds: the pool %s heal by itself.", would);
    else if (sfs_json_true(impact, "can_heal"))
        n = snprintf(text, sizeof(text), "%llu of the %llu slabs that it holds have no other copy: they %s not be healed.", hopeless, slabs, would);
    else
        n = snprintf(text, sizeof(text), "The other disks have room for %llu of the %llu slabs that %s be built anew: the pool %s not heal in full. Add a disk, or delete something.",
                     placed, slabs - hopeless, online ? "had to" : "have to", would);
    if (replicas == 1 || !(online || replicas))
        snprintf(text + n, sizeof(text) - (size_t)n, " %llu cop%s of the pool's catalog %s left.", replicas,
                 replicas == 1 ? "y" : "ies", online ? "would be" : replicas == 1 ? "is" : "are");
    printf("\n  ");
    sfs_ui_wrap(text, 2, 2);
}

int sfs_cmd_impact(struct sfs_cli *c)
{
    const char *pool = c->args[0], *disk = c->args[1];
    struct sums sums = {0};
    json_t *impact =
        sfs_request(c, pool, json_pack("{s:s,s:s}", "cmd", "impact", "disk", disk), SFS_REQUEST_READONLY);
    if (!impact)
        return SFS_EXIT_FAILED;
    size_t i;
    json_t *space;
    json_array_foreach(sfs_json_array(impact, "spaces"), i, space)
    {
        sums.lost_files += sfs_json_u64(json_object_get(space, "lost"), "files");
        sums.lost_bytes += sfs_json_u64(json_object_get(space, "lost"), "bytes");
        sums.risk_files += sfs_json_u64(json_object_get(space, "at_risk"), "files");
        sums.weaker_files += sfs_json_u64(json_object_get(space, "weaker"), "files");
    }
    int code = sums.lost_files || all_would_go(impact) ? SFS_EXIT_FAILED : SFS_EXIT_OK;
    if (c->json) {
        sfs_json_print(c, impact);
    } else {
        bool online = sfs_json_true(impact, "online");
        printf(online ? "If disk %s of pool %s went now:\n" : "Disk %s of pool %s is away. What that means:\n",
               disk, pool);
        print_verdict(c, impact, &sums);
        print_spaces(c, impact);
        print_examples(impact, &sums);
        print_healing(impact, online);
    }
    json_decref(impact);
    return code;
}
