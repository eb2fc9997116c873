/* spacesfs heal. */
#include "cli/command.h"

#include <string.h>
#include "cli/request.h"
#include "cli/ui.h"

int sfs_cmd_heal(struct sfs_cli *c)
{
    const char *pool = c->args[0];
    bool wait = sfs_cli_flag(c, "wait");
    json_t *result = sfs_request(c, pool, json_pack("{s:s,s:b}", "cmd", "heal", "wait", wait),
                                 SFS_REQUEST_WAIT_IN_PROCESS);
    if (!result)
        return SFS_EXIT_FAILED;
    if (c->by_daemon && !wait)
        return sfs_request_done(
            c, result, "%s: healing runs in the background. Watch it: spacesfs jobs %s --watch", pool, pool);
    if (c->json)
        return sfs_request_done(c, result, "%s", "");
    json_decref(result);
    json_t *status = sfs_request(c, pool, json_pack("{s:s}", "cmd", "status"), SFS_REQUEST_READONLY);
    if (!status)
        return SFS_EXIT_FAILED;
    char clean[1024];
    printf("%s: all that can be healed has been. ", pool);
    sfs_ui_wrap(sfs_ui_clean(sfs_json_text(status, "verdict"), clean, sizeof(clean)), 40, 0);
    json_decref(status);
    return SFS_EXIT_OK;
}
