"""What the caller asked for that makes odd answers right. Pure.

Read only when a detector has found something, so its cost is paid by suspicious answers alone.
"""

from __future__ import annotations

import re
from itertools import pairwise

from quality_lib.gates.lazy import lazy
from quality_lib.gates.stems import StemIndex, Stems, stems
from quality_lib.gates.text_fold import listed

_HEAD, _TAIL = 4_000, 8_000
"""Characters of a long prompt that are read: instructions stand at its ends."""
_WORD = re.compile(r"\w+")
_TIMES = re.compile(
    r"[\d一二三四五六七八九十百千两几数]+ ?(?:次|遍|回(?!答)|번|度)|\d+ ?(?:x|×|mal)\b"
    r"|\b(?:zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|zwölf|zwanzig|dreißig|fünfzig|hundert)mal\b"
)
_FRACTION = re.compile(r"\d+/\d+|U\+[0-9A-F]{4}")


_REPEATS = stems(
    "repeat repetiti over_and_over again_and_again refrain chorus chant mantra lyric beatbox onomatop echoing wiederhol répét répèt repite "
    "repet повтор placeholder boilerplate separator divider stress_test padding scream laugh filled_with row_of rows_of line_of lines_of "
    "string_of series_of just_the_letter just_the_word mantras nursery sound_of sounds_of",
    "times twice thrice song in_a_row loop mal fois veces vezes раз pattern border fill noises tongue",
    "重复 重複 繰り返 반복 كرر दोहरा",
)
_DIGITS = stems(
    "digit decimal hex bit byte base64 base_64 base32 zero matri array grid bitmap modulo fraction number nucleotide protein genome "
    "count even odd prime math prove proof solve equation product divi expand integral probab interest add subtract percent average median derivat  fibonacci square score statistic temperature price phone schedule date lottery multipl times_table sum calculat "
    "sequence checksum encod decod cipher regist mask password zahl chiffre dígito uuid pad fingerprint signature",
    "binary ones pi mod dna rna fasta morse hash dump key token π random dice roll",
    "数字 小数 二进制 桁",
)
_FLAT_NUMBERS = stems(
    "zero matri vector array grid bitmap hex byte tensor binary decimal digit random list_of_zeros pad repeat",
    "ones dump pixels dna mask",
)
_DRAWING = stems(
    "draw ascii sparkline bar_chart histogram diagram maze progress_bar banner ruler pyramid triangle diamond shape pixel emoji emoticon "
    "kaomoji smil смайл crossword sudoku tic_tac",
    "art chart box board tree star stars map icon icons layout frame table calendar grid",
    "表情 絵文字 顔文字",
)
_LANGUAGES = stems(
    "translat multilingual bilingual alphabet unicode etymolog transliterat romanis romaniz glyph calligraph proverb übersetz tradui traduc "
    "traduz перевед перевод languages word_for",
    "greetings hello",
    "翻译 翻譯 翻訳 번역 ترجم अनुवाद",
)
"""Any language may appear."""
_SCRIPTS = {
    "CJK": stems(
        "chinese mandarin cantonese japan kanji hiragana katakana pinyin haiku anime manga taiwan hong_kong hongkong confuci buddh",
        "china tokyo beijing shanghai kyoto osaka zen tao taoism daoism sushi karate judo samurai",
    ),
    "Hangul": stems("korea hangul kimchi", "seoul"),
    "Cyrillic": stems(
        "russia ukrain bulgaria serbia macedonia belarus cyrillic kazakh mongolia soviet",
        "moscow kyiv kiev tsar putin",
    ),
    "Greek": stems("greek greece philosoph", "athens iliad odyssey"),
    "Arabic": stems("arab persia farsi iran urdu quran koran islam muslim egypt pakistan", "allah"),
    "Hebrew": stems("hebrew israel jewish yiddish torah", "kabbalah"),
    "Thai": stems("thai", "bangkok"),
    "Devanagari": stems(
        "hindi india sanskrit marathi nepal devanagari yoga vedic hindu", "mantra karma dharma"
    ),
    "Bengali": stems("bengal bangla"),
    "Tamil": stems("tamil india lanka"),
    "Georgian": stems("georgia"),
    "Armenian": stems("armenia"),
    "Other": stems(
        "india telugu gujarat punjab kannada malayalam amharic ethiopia khmer cambodia burmese myanmar tibet sinhal lanka cherokee runic "
        "hieroglyph cuneiform mongolia syriac coptic",
        "lao rune runes",
    ),
}
_ENCODINGS = stems(
    "mojibake encod decod utf unicode latin1 latin_1 charset codepage code_page replacement_character byte garbled escape ligature corrupt cp125 "
    "cp1252",
    "ansi ascii broken_text broken_characters weird_characters strange_characters",
)
_MARKERS = stems(
    "special_token control_token chat_template chatml tokeniz tokenis stop_token stop_sequence stop_string end_of_turn end_of_text "
    "end_of_sequence pad_token padding_token prompt_format harmony instruct_format instruction_format jinja masked fill_in_the wordpiece "
    "sentencepiece",
    "bos eos bpe mask",
)
_REASONING = stems(
    "thinking_tag think_tag reasoning_tag reasoning_block reasoning_trace reasoning_format reasoning_model scratchpad chain_of_thought tag "
    "think_token think_block",
    "xml step_by_step_in html",
    "<think </think",
)
_TOOLS = stems(
    "tool_call function_call toolcall tool_format tool_use hermes_format",
    "mcp function_calling",
    "<tool <invoke <function",
)
_DIALOGUE = stems(
    "dialog conversation transcript interview screenplay role_play roleplay exchange_between few_shot skit scene prompt_template "
    "sample_prompt simulat pretend training_data chatbot example_dialog example_conversation gespräch diálogo диалог",
    "chat script q_a faq play user human assistant bot conversation prompt prompts",
    "对话 對話 会話 대화",
)
_COPYING = stems(
    "repeat echo quot copy copies verbatim exact word_for_word transcri recite translat correct proofread grammar spell punctuat rewrite "
    "rephras re_phras paraphras summar shorten simplif extract reorder alphabeti revers format convert transform continue complete "
    "highlight output print write_this write_the write_it write_out clean remov replac strip uppercase lowercase capitali dedup merg polish "
    "improv respond_with reply_with answer_with classif label which_of which_one which_sentence which_word find_the identify spell_out "
    "list_of bullet keyword tokeniz tokenis split markdown docstring comment refactor korrigier wiederhol übersetz zusammenfass corrig répèt "
    "tradui résum repite resum traduc повтор исправ перевед перескаж say_the_following say_exactly say_it say_this after_me restate "
    "turn_this turn_the turn_it",
    "fix edit sort order finish fill return say_the say_after pick choose select tl_dr tldr json csv table code as_is inline",
    "重复 翻译 改写 总结 修改 繰り返 要約 翻訳 校正 번역 요약",
)
_WORD_LIST = stems(
    "noun verb adjective adverb word list name keyword tag synonym antonym rhym term vocabulary passphrase password mnemonic brainstorm one_per separated_by "
    "space_separated random examples_of item tongue_twister spelling scrabble anagram wörter liste palabras слов список telegram headline",
    "seed mots poem",
    "词 単語 列表",
)
_NONSENSE = stems(
    "random gibberish nonsense lorem placeholder garbage jabberwock cipher encrypt encod decod base64 base_64 base32 base58 hash hex rot13 "
    "rot_13 caesar password identifier uuid token obfuscat minif regex regular_expression invented made_up conlang fictional_language elvish "
    "klingon leet keyboard_smash dadaist fuzz test_data sample_data pig_latin palindrome anagram scrambl morse phonetic seed_phrase sku "
    "serial part_number abbreviat acronym command flag shortcut file_name filename path selector handle hashtag chess opening_moves notation "
    "transcription license_key product_key",
    "scat ipa pgn moves formula chords tabs",
)
_CODE = stems(
    "code function program python java golang sql html css regex bash shell api json yaml xml csv config dockerfile makefile command stack_trace "
    "traceback class method implement getter assembl typescript kotlin markup gcode chess git linux unix matri equation latex terminal "
    "query queries schema snippet import",
    "script c rust log logs dump data table swift diff patch svg midi pgn abc_notation cli",
)
_UNSPACED = stems(
    "no_space no_blank no_gap without_space without_a_space without_blank without_gap unspaced camelcase alphabet",
    "hashtag slug",
)
_LETTERS = stems(
    "letter alphabet initial vowel consonant spell chord note grade blood_type answer_key multiple_choice variab quiz option column vitamin "
    "nucleotide protein genome matri grid",
    "abc abcd music test seats keys dna rna",
)
_FREE = stems(
    "haiku limerick lyric riddle joke screenplay monolog dialog conversation slogan motto tagline pretend imagin surpris invent creativ "
    "metaphor analog proverb headline encourag motivat fiction poem poet rhym let_s_play role_play roleplay improvis hypothetical",
    "story stories tale tales fable novel verse verses song songs refrain chorus rap pun puns scene script toast tweet compliment roast "
    "something anything whatever random interesting fun funny bored act character villain hero game games play guess quiz trivia flip pick "
    "choose continue complete finish make_up made_up irony moral quote quotes title titles caption dream dreams wish feel opinion typo typos "
    "nice subject_line first_line opening_line pick_up_line",
)
"""Hardly anything in the prompt tells what a good answer says."""
_INDEX = StemIndex((
    *(_REPEATS, _DIGITS, _FLAT_NUMBERS, _DRAWING, _LANGUAGES, *_SCRIPTS.values(), _ENCODINGS),
    *(_MARKERS, _REASONING, _TOOLS, _DIALOGUE, _COPYING, _WORD_LIST, _NONSENSE, _CODE, _UNSPACED),
    *(_LETTERS, _FREE),
))
_PRODUCT = re.compile(r"\d+ times \d+")
_NUMBER_WORDS = {
    word: number
    for number, words in {
        2: "two twice zwei deux dos dva",
        3: "three thrice drei trois tres три",
        4: "four vier quatre cuatro",
        5: "five fünf cinq cinco пять",
        6: "six sechs seis",
        7: "seven sieben sept siete",
        8: "eight acht huit ocho",
        9: "nine neun neuf nueve",
        10: "ten zehn dix diez десять",
        12: "twelve dozen zwölf douze doce",
        15: "fifteen quinze quince",
        20: "twenty zwanzig vingt veinte двадцать",
        30: "thirty dreißig trente treinta",
        40: "forty",
        50: "fifty fünfzig cinquante cincuenta пятьдесят",
        100: "hundred hundert cent cien сто",
        1000: "thousand tausend mille mil тысяча",
    }.items()
    for word in words.split()
}
_UNITS = frozenset(
    listed(
        "km kilometre kilometres kilometer kilometers miles mile m metres meters cm mm kg g grams gram kilograms pounds lb lbs oz euros euro "
        "eur dollars dollar usd percent year years month months week weeks day days hour hours h minutes minute min seconds second s degrees "
        "c f kmh mph litres liters litre ml calories kcal watts volts gb mb tb kb characters letters tokens pages people passengers o am pm st nd "
        "rd th million billion january february march april may june july august september october november december jahre jahren euro ans heures"
    )
)
_LONGEST_NUMBER = 5
_FIRST_YEAR, _LAST_YEAR = 1_500, 2_100
_HAN_NUMBERS = {"十": 10, "二十": 20, "五十": 50, "百": 100, "千": 1000, "三": 3, "五": 5, "两": 2}


class Wishes:
    """The caller's words, read for what they make right."""

    def __init__(self, asked: str) -> None:
        if len(asked) > _HEAD + _TAIL:
            asked = f"{asked[:_HEAD]}\n{asked[-_TAIL:]}"
        self.text = asked

    @lazy
    def small(self) -> str:
        """The prompt in small letters."""
        return self.text.casefold()

    @lazy
    def words(self) -> list[str]:
        """The words and numbers of the prompt in small letters."""
        return _WORD.findall(self.small)

    @lazy
    def folded(self) -> str:
        """Those words between single blanks."""
        return f" {' '.join(self.words)} "

    @lazy
    def copies(self) -> int:
        """The largest number that the caller named, in digits or words; 0 for none."""
        largest = 0
        for word, behind in pairwise((*self.words, "")):
            number = _NUMBER_WORDS.get(word, 0)
            if word.isdecimal() and len(word) <= _LONGEST_NUMBER:
                number = int(word)
            # "500 kilometres" and "in 1871" say nothing of how often.
            if (
                number > largest
                and behind not in _UNITS
                and not _FIRST_YEAR <= number <= _LAST_YEAR
            ):
                largest = number
        for sign, number in _HAN_NUMBERS.items():
            if number > largest and sign in self.small:
                largest = number
        return largest

    @lazy
    def _told(self) -> int:
        return _INDEX.told_by(self.words)

    def _has(self, subject: Stems) -> bool:
        if _INDEX.tells(self._told, subject):
            return True
        if _INDEX.may_hold_phrase(self._told, subject):
            folded = self.folded
            if any(phrase in folded for phrase in subject.phrases):
                return True
        return not self.text.isascii() and any(part in self.small for part in subject.parts)

    @lazy
    def repeats(self) -> bool:
        """Whether the same thing over and over was asked for."""
        if _PRODUCT.search(self.small) is not None:
            return False  # a sum to work out
        return self._has(_REPEATS) or _TIMES.search(self.small) is not None

    @lazy
    def unspaced(self) -> bool:
        """Whether letters without blanks between them were asked for."""
        return self._has(_UNSPACED)

    @lazy
    def digits(self) -> bool:
        """Whether digits, bytes or codes over a small alphabet were asked for."""
        return self._has(_DIGITS) or _FRACTION.search(self.text) is not None

    @lazy
    def flat_numbers(self) -> bool:
        """Whether rows of one and the same number may be right: matrices, vectors, fractions, dumps."""
        return self._has(_FLAT_NUMBERS) or _FRACTION.search(self.text) is not None

    @lazy
    def drawing(self) -> bool:
        """Whether a drawing of characters, or emoji, was asked for."""
        return self._has(_DRAWING)

    @lazy
    def languages(self) -> bool:
        """Whether any other language or script may rightly appear."""
        return self._has(_LANGUAGES)

    @lazy
    def scripts(self) -> frozenset[str]:
        """The scripts of the languages and countries that the prompt names."""
        return frozenset(script for script, stems in _SCRIPTS.items() if self._has(stems))

    @lazy
    def encodings(self) -> bool:
        """Whether damaged characters may be the subject."""
        return self._has(_ENCODINGS) or "\ufffd" in self.text or "U+" in self.text

    @lazy
    def markers(self) -> bool:
        """Whether control markers may be the subject."""
        return self._has(_MARKERS)

    @lazy
    def reasoning(self) -> bool:
        """Whether reasoning tags may be the subject."""
        return self._has(_REASONING) or "<think" in self.small

    @lazy
    def tools(self) -> bool:
        """Whether the markup of tool calls may be the subject."""
        return self._has(_TOOLS) or "<tool" in self.small or "<invoke" in self.small

    @lazy
    def dialogue(self) -> bool:
        """Whether several speakers were asked for."""
        return self._has(_DIALOGUE)

    @lazy
    def copying(self) -> bool:
        """Whether the answer may rightly be made of the prompt's own words."""
        return self._has(_COPYING) or any(f"say {mark}" in self.small for mark in "\"'“‘:")

    @lazy
    def word_list(self) -> bool:
        """Whether words without sentences were asked for."""
        return self._has(_WORD_LIST)

    @lazy
    def nonsense(self) -> bool:
        """Whether text without sense or grammar was asked for."""
        return self._has(_NONSENSE)

    @lazy
    def code(self) -> bool:
        """Whether code, data or logs were asked for."""
        return self._has(_CODE)

    @lazy
    def free(self) -> bool:
        """Whether a story, a joke, a game or anything else was asked for that may say nearly anything."""
        return self._has(_FREE)

    @lazy
    def letters(self) -> bool:
        """Whether single letters may be the answer."""
        return self._has(_LETTERS)
