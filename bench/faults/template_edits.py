"""Ways in which a chat template goes wrong: pure functions of its text."""

from __future__ import annotations

from collections.abc import Callable

from quality_lib.errors import BadInput

ALPACA = (
    "{% for message in messages %}### {{ message.role | capitalize }}:\n{{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}### Response:\n{% endif %}"
)


def edited_template(text: str, edit: str) -> str:
    """Return the template after an edit.

    Raises:
        BadInput: there is no such edit, or it leaves this template as it is.
    """
    act = EDITS.get(edit)
    if act is None:
        raise BadInput(f"there is no template edit '{edit}'; there are {', '.join(EDITS)}")
    edited = act(text)
    if edited == text:
        raise BadInput(f"template edit '{edit}' does not change this template")
    return edited


def _doubled_bos(text: str) -> str:
    """Write the first control token twice, as a template and a tokenizer that both add it do."""
    return "{{ '<|im_start|>' }}" + text


def _no_system_prompt(text: str) -> str:
    """Leave out the default system message that the template puts first."""
    start = text.find("{% if loop.first")
    end = text.find("{% endif %}", start)
    if start < 0 or end < 0:
        return text
    return text[:start] + text[end + len("{% endif %}") :]


def _missing_newline(text: str) -> str:
    """Lose the line end after the role of the one who answers."""
    return text.replace("<|im_start|>assistant\n", "<|im_start|>assistant").replace(
        "message['role'] + '\n'", "message['role'] + ''"
    )


EDITS: dict[str, Callable[[str], str]] = {
    "doubled_bos": _doubled_bos,
    "no_system_prompt": _no_system_prompt,
    "missing_newline": _missing_newline,
    "alpaca": lambda text: ALPACA,
}
