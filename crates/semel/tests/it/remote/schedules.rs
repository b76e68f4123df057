//! `semel schedule`.

use serde_json::json;

use super::{World, assert_failed, steady};

#[test]
fn a_schedule_is_made_changed_and_deleted() {
    let world = World::with_orders();
    let none = world.run(&["schedule", "list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    let made = ["schedule", "set", "report", "{\"n\": 1.0}", "--queue", "orders", "--cron", "0 6 * * *"];
    let expected =
        "report\nqueue orders\ncron 0 6 * * * (UTC)\nnext ticks TIME, TIME, TIME\npayload {\"n\": 1.0}";
    assert_eq!(steady(&world.good(&made)), expected);
    let changed = world.good(&["schedule", "set", "report", "--cron", "@hourly", "--zone", "Asia/Tokyo"]);
    assert_eq!(steady(&changed), expected.replace("0 6 * * * (UTC)", "@hourly (Asia/Tokyo)"));
    assert_eq!(steady(&world.good(&["schedule", "show", "report"])), steady(&changed));
    let listed = "schedule queue cron zone next tick\nreport orders @hourly Asia/Tokyo TIME";
    assert_eq!(steady(&world.good(&["schedule", "list"])), listed);
    assert_eq!(world.good_json(&["schedule", "show", "report"])["payload"], json!({ "n": 1.0 }));

    for (args, code, words) in [
        (&["set", "report", "--cron", "61 * * * *"][..], 6, "cron"),
        (&["set", "report", "--queue", "none"], 5, "there is no queue none"),
        (&["set", "report", "{"], 2, "not JSON"),
        (&["set", "other", "1", "--queue", "orders"], 2, "there is no schedule other yet: give --cron"),
        (&["set", "other", "--queue", "orders", "--cron", "@daily"], 2, "give a payload"),
        (&["show", "other"], 5, "record_not_found"),
        (&["delete", "other", "--yes"], 5, "record_not_found"),
        (&["delete", "report"], 2, "add --yes"),
    ] {
        let args = [&["schedule"], args].concat();
        assert_failed(&world.run(&args), code, words, &format!("{args:?}"));
    }
    assert_eq!(steady(&world.good(&["schedule", "list"])), listed, "nothing has changed");
    world.good(&["schedule", "delete", "report", "--yes"]);
    assert_eq!(world.good(&["schedule", "list"]), "");
}
