"""`orchestai evaluate-table`: choosing workers on an outcome table, against the field's routers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from rich.markup import escape

from orchestai.cli.options import CONFIG, ConfigFile, JsonFile, Overrides, flag, say
from orchestai.cli.table_options import Cards, Columns, Reader, RunReplies, judged_replies, read_table
from orchestai.progress import console


def evaluate_table(
    table: Annotated[list[Path], flag("table", "File or folder of outcomes; may be given several times.")],
    reader: Reader,
    columns: Columns = None,
    cards: Cards = None,
    seeds: Annotated[int, flag("seeds", "Number of splits.", minimum=1)] = 3,
    new_workers: Annotated[
        bool, flag("new_workers", "Also leave each worker out, of which a card and 0, 20 or 50 outcomes are known.")
    ] = False,
    run_replies: RunReplies = False,
    cascade: Annotated[
        list[str] | None,
        flag("cascade", "With --run_replies: WORKER,WORKER,... to ask in turn until the first test passes."),
    ] = None,
    cascade_budget: Annotated[
        float | None,
        flag(
            "cascade_budget",
            "With --run_replies: the chosen cascade's highest cost, as a share of the best worker's; 1/15 if absent.",
            minimum=0,
        ),
    ] = None,
    config: ConfigFile = CONFIG,
    json_path: JsonFile = None,
    overrides: Overrides = None,
) -> None:
    """Compare routers on an outcome table: AIQ, APGR and more, with intervals, on queries that nothing learned from."""
    from orchestai.config import load_config
    from orchestai.errors import UserError
    from orchestai.evaluation.tables.baselines import BASELINES
    from orchestai.evaluation.tables.new_worker import leave_one_worker_out
    from orchestai.evaluation.tables.replies.replies_evaluation import evaluate_replies
    from orchestai.evaluation.tables.table_evaluation import evaluate_table as run_evaluation
    from orchestai.evaluation.tables.table_report import to_dict, to_table
    from orchestai.evaluation.tables.worker_estimate import OURS, estimate
    from orchestai.planner.slots.encoders.query_features import query_features
    from orchestai.storage import artifacts

    if not run_replies and (cascade or cascade_budget is not None):
        raise UserError("--cascade and --cascade_budget compare replies that are run: add --run_replies")
    loaded = load_config(config, overrides or [])
    outcomes = read_table(table, reader, columns, cards)
    facts = {"paths": [str(path) for path in table], "reader": reader, "versions": artifacts.versions()}
    report: dict[str, Any]

    def write() -> None:
        if json_path is not None:
            artifacts.write_json(json_path, report | facts)

    with console.status("embedding the queries") as status:

        def progress(doing: str) -> None:
            status.update(escape(doing))

        if run_replies:
            judged, _ = judged_replies(outcomes, loaded, progress)
            chains = [one.split(",") for one in cascade or []]
            budget = {} if cascade_budget is None else {"budget": cascade_budget}
            features = query_features(judged.table.texts, loaded.workers.models_dir)
            compared = evaluate_replies(judged, features, chains, seeds=range(seeds), **budget)
            printed, report, notes = compared.to_table(), compared.to_dict(), compared.notes
        else:
            features = query_features(outcomes.texts, loaded.workers.models_dir)
            described = None
            if outcomes.cards:
                texts = [outcomes.cards.get(worker, worker) for worker in outcomes.workers]
                described = query_features(texts, loaded.workers.models_dir)
            common: dict[str, Any] = {"seeds": range(seeds), "cards": described, "progress": progress}
            evaluation = run_evaluation(outcomes, features, BASELINES | {OURS: estimate}, **common)
            printed, report, notes = to_table(evaluation), to_dict(evaluation), evaluation.notes
        write()
        console.print(printed)
        say(*notes)
        if new_workers and not run_replies:
            left_out = leave_one_worker_out(outcomes, features, **common)
            report["new_worker"] = left_out.to_dict()
            write()
    if json_path is not None:
        say(f"written: {json_path}")
