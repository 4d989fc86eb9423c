import json
import re
from pathlib import Path

from support.command_line import EXACT, Outcome, call


def chat(files: Path, stdin: str, *arguments: str, model: str = "t.gguf") -> Outcome:
    return call(
        *("chat", "-m", files / model, "-md", files / "d2", *EXACT, "-n", "8", *arguments),
        stdin=stdin,
    )


def test_each_line_is_a_turn(files: Path) -> None:
    outcome = chat(files, "hello\n\nand you?\n", "--verbose")
    assert outcome.code == 0
    first, second = answers(outcome)
    assert len(first) == len(second) == 8
    reused = re.findall(r"reused   (\d+) of (\d+) prompt tokens", outcome.err)
    before = len("suser\nhelloe\nsassistant\n")  # s and e: a token each
    prompt = before + 8 + len("e\nsuser\nand you?e\nsassistant\n")
    # The last token of an answer is not read before the next turn.
    assert reused == [("0", str(before)), (str(before + 7), str(prompt))]


def answers(outcome: Outcome) -> list[str]:
    found = outcome.out.split("\n")
    assert found.pop() == ""
    return found


def test_reuse_changes_no_text(files: Path, tmp_path: Path) -> None:
    outcome = chat(files, "hello\nand you?\n")
    first, second = answers(outcome)
    conversation = [("user", "hello"), ("assistant", first), ("user", "and you?")]
    text = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in conversation)
    alone = call(
        *("run", "-m", files / "t.gguf", "-md", "none", *EXACT, "-n", "8", "-q", "--prompts"),
        write_conversation(tmp_path / "c.jsonl", conversation),
    )
    assert alone.out.split("\n", 1)[1].rstrip("\n") == second, text


def write_conversation(path: Path, turns: list[tuple[str, str]]) -> Path:
    messages = [{"role": role, "content": said} for role, said in turns]
    path.write_text(json.dumps({"messages": messages}))
    return path


def test_reset_starts_anew(files: Path) -> None:
    outcome = chat(files, "hello\n/reset\nhello\n")
    first, second = answers(outcome)
    assert first == second
    assert "starts anew" in outcome.err


def test_exit_ends_at_once(files: Path) -> None:
    assert chat(files, "/exit\nhello\n").out == ""
    assert "/reset" in chat(files, "/help\n/quit\nhello\n").err


def test_a_failed_turn_is_told_and_the_chat_goes_on(files: Path) -> None:
    outcome = chat(files, f"hello\n{'x' * 200}\nhi\n", model="short.gguf")
    assert outcome.code == 0
    assert outcome.err.count("error: ") == 1
    assert "the context holds 96" in outcome.err
    first, last = answers(outcome)
    without = chat(files, "hello\nhi\n", model="short.gguf")
    assert answers(without) == [first, last]


def test_an_answer_that_fills_the_context_is_told(files: Path) -> None:
    outcome = chat(files, "hello\n", "-n", "-1", model="short.gguf")
    assert outcome.code == 0
    assert len(answers(outcome)[0]) == 96 - len("suser\nhelloe\nsassistant\n")
    assert "(cut at a limit)" in outcome.err


def test_a_system_message_counts(files: Path) -> None:
    plain = chat(files, "hello\n", "--verbose").err
    with_system = chat(files, "hello\n", "--verbose", "-s", "be brief").err
    counts = [int(re.findall(r"of (\d+) prompt", err)[0]) for err in (plain, with_system)]
    assert counts[1] - counts[0] == len("ssystem\nbe briefe\n")


def test_a_model_without_template_cannot_chat(files: Path) -> None:
    outcome = chat(files, "hello\n", model="mute.gguf")
    assert outcome.code == 1
    assert outcome.err.startswith("error: mute.gguf has no chat template")


def test_nothing_is_reused_where_nothing_was_read(files: Path) -> None:
    outcome = chat(files, "hello\n", "--verbose", "-n", "0")
    assert re.findall(r"reused   (\d+) of (\d+)", outcome.err) == [("0", "24")]
