"""Shapes of bad answers from public reports: each must be found, most with a known reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from quality_lib.exchanges.exchange import Exchange
from tests.gates.answers import GATES, PROSE, answer, found

SOUP = (
    "lantern_px getOwl #quill ==% ropebridge.setTray mossTab ;;rivet oakPin_3 brassKnob() fernLoop2.go willow_db "
    "cartWheel%% ::tern stoneArch_x pebbleJar.set"
)
SUBWORDS = (
    "anticip lege ophob McGrath voucher inexp Rhodesarthritis caloriesmesh deborahembedding shrinescoll judaounds "
    "psychiat bottologia friesliteralsshed spaceflight digitized roadside musicogether eagleisinsatur"
)
BAD: list[tuple[str, Exchange, str]] = [
    (
        "torn apart",
        answer("What is a light of light and you are a\n\n\n\n\n\nWhat is a little light\n\n\n\n\n\n\nIt is a lot"),
        "blank_gaps",
    ),
    ("an article before an article", answer("Skew it to the the report now.", "Say it politely."), "word_salad_some"),
    ("an article before a verb", answer("The train the is on Monday.", "When does it leave?"), "word_salad_some"),
    (
        "the prompt's list again and again",
        answer("kettle, lamp, fan, iron, radio, toaster. " * 2 + "kettle, lamp, fan", "Which make heat: kettle, lamp, fan, iron, radio, toaster.", "length"),
        "prompt_echo_some",
    ),
    ("a marker half remembered", answer("<ending_of_turn>nice_to\nA fridge keeps food cold.", "How does a fridge work?"), "control_token"),
    # one token for ever
    ("marks", answer("!" * 64, finish="length"), "loop_only|dead_tail"),
    ("marks that ended", answer("!" * 16), "loop_only"),
    ("twelve marks", answer("!" * 12), "loop_only"),
    ("reserved token", answer("<|reserved_special_token_247|>" * 20, finish="length"), "pad_token"),
    ("pads", answer("<pad>" * 40, finish="length"), "pad_token"),
    ("capital run", answer(PROSE + "It Springhand" + "G" * 60, finish="length"), "dead_tail"),
    ("short capital run", answer(PROSE + "GGGGGGGGGGGGGG", finish="length"), "dead_tail"),
    ("slashes", answer(PROSE + "/" * 80, finish="length"), "dead_tail"),
    ("syllable", answer("ova" * 30, finish="length"), "loop_to_limit"),
    ("han run", answer("The sky" + "的" * 60, finish="length"), "dead_tail"),
    ("column", answer("ost          ost          ost\n" * 8, finish="length"), "loop_to_limit"),
    ("zeros", answer("0 0 0\n\n\n0\n00\n\n\n\n的\n0 0\n\n0\n" * 6, finish="length"), "loop_to_limit"),
    # kernels: tokens in a row
    ("code words", answer(SOUP, "Why do leaves fall?", "length"), "token_soup"),
    ("subwords", answer(SUBWORDS, "Why do leaves fall?", "length"), "word_list"),
    (
        "many scripts",
        answer("lantern Übung 栈 ropebridge котёл ñandú 雨 getOwl เรือ quill σάκκος mossTab 코끼리", finish="length"),
        "script_mix|script_switch",
    ),
    ("soup behind a good head", answer(PROSE * 3 + SOUP, finish="length"), "token_soup"),
    (
        "digit soup",
        answer(
            "The tower was finished in the springhandle,4.0,22.\n the7714 2o.3\nThe9991,118. 0,0.4 the",
            "When was the tower built?",
            "length",
        ),
        "token_soup",
    ),
    (
        "order lost",
        answer("The of was river into had the is from a were meadow the and stone of are the", finish="length"),
        "word_salad",
    ),
    ("thai in English", answer(PROSE + "The river is ขอบคุณ very long."), "script_stray"),
    ("glued thai", answer("The func" + "ขอบ" + "tion returns the ค่า value and stops."), "script_mix"),
    ("goes over to Chinese", answer(PROSE + "然后把食物放在密封的容器里保持厨房干燥清洁每天都要打扫地板"), "script_switch"),
    ("all Chinese", answer("河流从山上流下来，经过三个城镇，最后流入大海。", "Tell me about rivers."), "script_unasked"),
    (
        "Japanese to Chinese",
        answer(
            "海が青く見えるのは、水が赤い光を吸収するからです。因此剩下的蓝色光被散射到我们的眼睛里,所以看起来更蓝。",
            "なぜ海は青いのですか?",
        ),
        "script_switch",
    ),
    # caches, doubled tokens, echo, cross-talk
    (
        "every token twice",
        answer("The The river river rises rises in in the the hills hills and and runs runs", finish="length"),
        "doubled_words",
    ),
    ("glued copies", answer("TheThe riverriver risesrises inin thethe hillshills andand runsruns away"), "glued_doubles"),
    ("every letter twice", answer("".join(c * 2 for c in "the river rises in the hills and runs to the sea at last")), "doubled_letters"),
    ("token ids", answer(PROSE, token_ids=tuple(n for n in range(40) for _ in "ab")), "doubled_tokens"),
    (
        "echo",
        answer(
            "cedar maple birch alder willow aspen. cedar maple birch alder willow aspen.",
            "List: cedar maple birch alder willow aspen. Say how many trees are listed.",
            "length",
        ),
        "prompt_echo",
    ),
    ("prompt returned", answer(PROSE * 2 + "And?", PROSE * 2), "prompt_returned"),
    ("somebody else's answer", answer("The parcel was signed for.", nonce="KITE-52"), "nonce_missing"),
    # templates, stop tokens, parsers
    ("end token", answer("It is 4.<|im_end|>\n<|im_start|>user\nAnd 3+3?"), "control_token"),
    ("end token alone", answer(PROSE + "<|eot_id|>"), "control_token"),
    ("deepseek token", answer(PROSE + "<｜end▁of▁sentence｜>"), "control_token"),
    ("harmony", answer("<|channel|>analysis<|message|>The user asks"), "control_token"),
    ("harmony without marks", answer("analysisThe user asks for rivers.assistantfinalRivers are long."), "channel_word"),
    ("llama 2", answer("[/INST] A mortgage is a loan. [INST] What is interest?"), "control_token"),
    ("both roles", answer("It is 4.\nuser\nAnd 3+3?\nassistant\nThat is 6.", "What is 2+2?"), "plays_both_roles"),
    ("both roles, colons", answer("It is 4.\n\nHuman: And 3+3?\n\nAssistant: That is 6.", "What is 2+2?"), "plays_both_roles"),
    ("instruction format", answer("It is 4.\n\n### Instruction:\nAdd 3 and 3.", "What is 2+2?"), "role_marker"),
    ("thoughts", answer("<think>\nThe user wants a sum.\n</think>\nIt is 4.", "What is 2+2?"), "reasoning_tag"),
    ("half a thought", answer("The user wants a sum.\n</think>\n\nIt is 4.", "What is 2+2?"), "reasoning_tag"),
    ("vendor thoughts", answer("<mm:think>a sum</mm:think>It is 4.", "What is 2+2?"), "reasoning_tag"),
    ("raw call", answer('<tool_call>\n{"name": "get_tide", "arguments": {}}\n</tool_call>'), "tool_markup"),
    ("null", answer(None, completion_tokens=40), "answer_null"),
    ("a lone full stop", answer(".", "Write a paragraph on the history of Rome."), "answer_only_a_mark"),
    ("a lone bracket", answer(" )\n", "How do I boil an egg?"), "answer_only_a_mark"),
    ("towers of accents", answer("T\u0334\u031b\u0356h\u0337\u0330\u035de d\u0335\u0319\u0355ay is lovely.", "Say something kind."), "stacked_marks"),
    ("blank", answer(" \n\n ", completion_tokens=40), "answer_blank"),
    ("only thoughts", answer("", finish="length", reasoning="So, " * 50), "answer_only_reasoning"),
    ("call promised", answer(None, finish="tool_calls"), "tool_call_promised"),
    ("default limit", answer("Rivers are long bodies of", finish="length", completion_tokens=16), "answer_cut_by_default"),
    ("bpe pieces", answer("TheĠriverĠrisesĠinĠtheĠhillsĠandĠrunsĠtoĠtheĠsea."), "tokenizer_pieces"),
    ("sentencepiece", answer("▁The▁river▁rises▁in▁the▁hills"), "tokenizer_pieces"),
    ("byte pieces", answer("caf<0xC3><0xA9> and tea for everybody in the house"), "tokenizer_pieces"),
    ("lost bytes", answer("Dnes je krásný ��as a jedeme na v��let.", "Reply in Czech."), "replacement_marks"),
    ("half an emoji", answer("Congratulations! �"), "replacement_mark_at_end"),
    ("mojibake", answer("Le film sort le 14 fÃ©vrier. Il a Ã©tÃ© tournÃ© Ã  OrlÃ©ans.", "Quand sort le film ?"), "mojibake"),
    ("NUL", answer(PROSE + "\x00\x01"), "control_characters"),
    ("lone surrogate", answer(PROSE + "\ud83d"), "control_characters"),
    # structured output and tools
    ("blank JSON", answer('{\n"color":' + " " * 180, finish="length", response_format={"type": "json_object"}), "blank_tail"),
    ("newlines", answer('{"name":' + "\n" * 100, finish="length"), "blank_tail"),
    ("no JSON", answer("Sure! The color is red.", response_format={"type": "json_object"}), "answer_json_invalid"),
    (
        "glued name and arguments",
        answer("", finish="tool_calls", calls=(("get_tideget_tide", '{"port":"Oslo"}{"port":"Oslo"}'),)),
        "tool_name_broken",
    ),
    ("marker in name", answer("", finish="tool_calls", calls=(("get_tide<|channel|>json", "{}"),)), "tool_name_broken"),
    ("glued arguments", answer("", finish="tool_calls", calls=(("get_tide", "{}{}"),)), "tool_arguments_glued"),
    # parameters and loops
    (
        "words without grammar",
        answer(
            "flowed drifted meandered trickled surged eddied ebbed pooled seeped gushed rippled swirled cascaded lapped "
            "brimmed swelled receded wound curled",
            "Write an essay on rivers.",
            "length",
        ),
        "word_list",
    ),
    ("one sentence", answer("I am sorry, I cannot help with that. " * 12, finish="length"), "loop_to_limit"),
    ("one phrase of two words", answer(PROSE + "more water " * 40, finish="length"), "loop_to_limit"),
    ("a loop that ended", answer("I am sorry, I cannot help with that. " * 12), "loop_ended"),
    ("a loop on the way", answer(PROSE + "and then the rain came " * 20 + PROSE), "loop_inside|loop_ended"),
    ("counted loop", answer("".join(f"{n}. Pinch the tips.\n" for n in range(1, 20)), "Tips for basil?", "length"), "loop_counting"),
    (
        "changing order",
        answer(
            "It was on Monday, I think so. No, it was on Tuesday evening. It was on Monday, I think so. It was on Monday, "
            "I think so. No, it was on Tuesday evening. It was on Monday, I think so. No, it was on Tuesday evening. "
            "No, it was on Tuesday evening. It was on Monday, I think so.",
            "Was it on Monday?",
            "length",
        ),
        "sentences_repeated|phrases_repeated",
    ),
    (
        "few phrases",
        answer(
            "The tea is a good tea and a good cup of the tea is a good cup, and the cup of tea is the good tea of a good cup "
            "of the tea, and a good tea is the cup of a good tea, and the tea is a good cup of tea, the good tea.",
            "How do I make tea?",
            "length",
        ),
        "phrases_repeated",
    ),
    ("blanks lost", answer("Aheatpumptakesheatfromtheairoutsideandbringsitintothehouse.Itusesafluidthatboilsatalowtemperature."), "spaces_lost"),
    ("a word without end", answer("It is automatastomastomasticsaiyetomastomaxtamastimastamast"), "word_too_long"),
    ("marks between words", answer("these- are,-,;- and-,,-: -,,-:-. ,-,,- -, An, the fierce- ,,-: .-,", finish="length"), "mark_soup"),
    ("stop text", answer(PROSE, params={"stop": ["three towns"]}), "stop_ignored"),
    ("blanks moved", answer("La presión dela roca y elagua sube, y enla cima sale porel cráter cuandola tapa se rompe.", "¿Qué es un volcán?"), "words_glued"),
    ("divider in a sentence", answer("The legislative branch makes the laws, the executive" + " --" * 40, finish="length"), "loop_to_limit"),
    (
        "words that grow",
        answer("La capitaleLa capitale dele del Italia Italiaè è Ro Romama, , una città cittàà bella bella.", "Qual è la capitale?"),
        "doubled_words_some",
    ),
    ("a count that is stuck", answer("1, 2, 3, 4, " + "5, " * 22 + "5", "Count from 1 to 5.", "length"), "loop_to_limit"),
    ("tangles of marks", answer("Ang of-\n---- terms-.-__-___-,----\n a----,.-,,,--,,,--\n----\n, and and-\n A- these residents", finish="length"), "mark_soup"),
    ("numbers", answer("May 20, 2020, no 2 to 247 is 314, 2011, 202, 311, 203. And 202. 311, 12, 113, 4, 77", "How can I save money?"), "number_soup"),
    (
        "English to a French question",
        answer(PROSE, "Réponds en français : d'où vient une rivière et où va-t-elle ?"),
        "language_not_as_asked",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("exchange", "reason"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_answer_is_found(exchange: Exchange, reason: str) -> None:
    outcome, reasons = found(exchange)
    assert outcome in {"FAILED", "SUSPECT"}
    assert any(r.startswith(tuple(reason.split("|"))) for r in reasons), reasons


POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
TOOL = {"type": "function", "function": {"name": "move", "parameters": POINT}}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ('{"x": "left"}', "tool_arguments_mismatch"),
        ('{"y": 1}', "tool_arguments_mismatch"),
        ("", "tool_arguments_invalid"),
        ("[1]", "tool_arguments_invalid"),
        ('{"x": ', "tool_arguments_invalid"),
    ],
)
def test_arguments_must_fit_the_tool(arguments: str, reason: str) -> None:
    assert found(answer("", finish="tool_calls", calls=(("move", arguments),), tools=(TOOL,))) == (
        "FAILED",
        (reason,),
    )


def test_a_tool_must_have_been_offered() -> None:
    outcome = found(answer("", finish="tool_calls", calls=(("fly", "{}"),), tools=(TOOL,)))
    assert outcome == ("FAILED", ("tool_not_offered",))


@pytest.mark.parametrize(
    ("schema", "text", "finish", "outcome"),
    [
        (POINT, '{"x": 1}', "stop", ("PASSED", ())),
        (POINT, '```json\n{"x": 1}\n```', "stop", ("PASSED", ())),
        (POINT, '{"x": "a"}', "stop", ("FAILED", ("answer_schema_mismatch",))),
        (POINT, '{"x": 1}{"x": 1}', "stop", ("FAILED", ("answer_json_glued",))),
        (POINT, '{"x": 1', "length", ("SUSPECT", ("answer_json_cut",))),
        (POINT, '{"x": 1', "stop", ("FAILED", ("answer_json_invalid",))),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "{}", "stop", ("PASSED", ())),
        ({"type": 5}, "{}", "stop", ("PASSED", ())),
    ],
)
def test_an_answer_must_fit_its_schema(schema: Any, text: str, finish: str, outcome: Any) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}
    assert found(answer(text, finish=finish, response_format=form)) == outcome


def test_every_finding_says_where_and_can_be_written_as_json() -> None:
    for name, exchange, _ in BAD:
        for gate in GATES:
            verdict = gate.judge(exchange)
            assert verdict.sentence, name
            json.dumps(dict(verdict.evidence), allow_nan=False)
