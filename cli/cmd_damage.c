/* spacesfs damage: the files that can't be read in full. */
#include "cli/command.h"

#include <string.h>
#include "cli/request.h"
#include "cli/show.h"
#include "cli/table.h"

void sfs_show_damage(const struct sfs_cli *c, const json_t *damage, unsigned max, unsigned indent)
{
    static const struct sfs_column columns[] = {
        {"SPACE", false, NULL, SFS_FIT_CUT_END},
        {"UNREADABLE", true, NULL, SFS_FIT_KEEP},
        {"WHY", false, NULL, SFS_FIT_KEEP},
        {"FILE", false, NULL, SFS_FIT_WRAP}};
    struct sfs_table *t = sfs_table_new(columns, 4);
    char size[24], clean[2048];
    size_t i;
    json_t *file;
    json_array_foreach(sfs_json_array(damage, "files"), i, file)
    {
        const char *path = json_string_value(json_object_get(file, "path")), *why = sfs_json_text(file, "why");
        if (i == max)
            break;
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_json_text(file, "space"));
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s", sfs_ui_size(c, sfs_json_u64(file, "bytes"), size));
        sfs_table_cell(t, !strcmp(why, "damaged") ? SFS_TONE_BAD : SFS_TONE_WARN, "%s", why);
        sfs_table_cell(t, SFS_TONE_PLAIN, "%s",
                       path ? sfs_ui_clean(path, clean, sizeof(clean)) : "(deleted, but still in use)");
    }
    if (sfs_table_rows(t))
        sfs_table_print(t, stdout, indent);
    sfs_table_free(t);
}

int sfs_cmd_damage(struct sfs_cli *c)
{
    const char *pool = c->args[0];
    json_t *damage = sfs_request(c, pool, json_pack("{s:s}", "cmd", "damage"), SFS_REQUEST_READONLY);
    if (!damage)
        return SFS_EXIT_FAILED;
    uint64_t count = sfs_json_u64(damage, "count");
    size_t listed = json_array_size(sfs_json_array(damage, "files"));
    if (c->json)
        sfs_json_print(c, damage);
    else if (!count)
        printf("%s: no file is known to be damaged, and none is on a disk that is missing.\n", pool);
    else
        sfs_show_damage(c, damage, UINT32_MAX, 0);
    if (!c->json && count > listed)
        printf("... and %llu more.\n", (unsigned long long)(count - listed));
    json_decref(damage);
    return count ? SFS_EXIT_FAILED : SFS_EXIT_OK;
}
