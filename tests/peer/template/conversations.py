"""Random conversations: what clients send, and what they should not."""

WORDS = ["Hello", "wörld", "你好", "मेरा", "שלום", "🦊", "a<b>&\"c\"'d'", "x\ty", "line\nline", "  spaced  ", "\n", "\r\n", "e\u0301", "\u2028",
         "{{ x }}", "{% if %}", "{# c #}", "\\n", "\"", "'", "\\", "1.5", "True", "None", "tool", "/think", "/no_think", "\u00a0", "\ufeff"]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<｜User｜>", "<｜Assistant｜>", "<｜end▁of▁sentence｜>", "<think>", "</think>", "<tool_call>",
           "</tool_call>", "[INST]", "[/INST]", "<|eot_id|>", "<|channel|>final<|message|>", "<|end|>", "[gMASK]<sop>", "]~b]ai", "[e~["]
NAMES = ["get_weather", "add", "Größe", "a b", "x-1", "functions.add:0"]


class Conversations:
    def __init__(self, random):
        self.random = random

    def text(self):
        random = self.random
        kind = random.randrange(10)
        if kind == 0:
            return ""
        if kind == 1:
            return "<think>" + self.words(3) + "</think>" + self.words(3)
        if kind == 2:
            return random.choice(SPECIAL).join(random.choice(SPECIAL + WORDS) for _ in range(3))
        return self.words(6)

    def words(self, count):
        random = self.random
        return random.choice([" ", " ", ""]).join(random.choice(WORDS) for _ in range(random.randrange(count + 1)))

    def value(self, depth=0):
        random = self.random
        kind = random.randrange(9 if depth < 3 else 7)
        if kind == 7:
            return [self.value(depth + 1) for _ in range(random.randrange(4))]
        if kind == 8:
            return {self.words(2) or "k": self.value(depth + 1) for _ in range(random.randrange(4))}
        return [None, True, False, random.randrange(-10**6, 10**6), random.choice([0.0, 1.0, 3.5, -2.25, 1e-7, 1e22, 0.1]), self.text(),
                random.choice(NAMES)][kind]

    def arguments(self):
        return {self.random.choice(["city", "days", "a", "é", "x y"]): self.value(1) for _ in range(self.random.randrange(4))}

    def tool(self):
        properties = {self.random.choice(["city", "days", "ünits"]): self.random.choice(
            [{"type": "string", "description": self.words(4)}, {"type": "integer"}, {"type": ["string", "null"]},
             {"type": "array", "items": {"type": "number"}}, {"type": "string", "enum": ["a", self.words(1)], "default": "a"},
             {"type": "object", "properties": {"q": {"type": "boolean"}}}, {"anyOf": [{"type": "string"}, {"type": "null"}]}])
            for _ in range(self.random.randrange(4))}
        function = {"name": self.random.choice(NAMES), "description": self.words(5),
                    "parameters": {"type": "object", "properties": properties, "required": list(properties)[:1]}}
        if self.random.randrange(8) == 0:
            del function[self.random.choice(["description", "parameters"])]
        return {"type": "function", "function": function}

    def calls(self, as_text):
        import json
        result = []
        for i in range(1 + self.random.randrange(3)):
            arguments = self.arguments()
            result.append({"id": "abc%06d" % i, "type": "function", "function": {
                "name": self.random.choice(NAMES), "arguments": json.dumps(arguments, ensure_ascii=False) if as_text else arguments}})
        return result

    def messages(self):
        random = self.random
        messages, as_text = [], random.randrange(4) == 0
        if random.randrange(2):
            messages.append({"role": "system", "content": self.text()})
        for _ in range(1 + random.randrange(3)):
            messages.append({"role": "user", "content": self.text()})
            if random.randrange(4) == 0:
                calls = self.calls(as_text)
                messages.append({"role": "assistant", "content": random.choice(["", None, self.text()]), "tool_calls": calls})
                for call in calls:
                    messages.append({"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": self.text()})
            if random.randrange(3):
                messages.append({"role": "assistant", "content": self.text()})
                if random.randrange(4) == 0:
                    messages[-1]["reasoning_content"] = self.text()
        if random.randrange(4):
            while messages and messages[-1]["role"] == "assistant":
                messages.pop()
        return messages or [{"role": "user", "content": self.text()}]

    def spoil(self, messages):
        """What a careless client does: strange roles and orders, parts, missing content."""
        random = self.random
        message = random.choice(messages)
        kind = random.randrange(5)
        if kind == 0:
            random.shuffle(messages)
        elif kind == 1:
            message["role"] = random.choice(["developer", "user", "function", "", "tool"])
        elif kind == 2:
            message["content"] = [{"type": "text", "text": self.text()} for _ in range(random.randrange(3))]
        elif kind == 3:
            message.pop("content", None)
        else:
            message["name"] = self.text()

    def variables(self):
        random = self.random
        messages = self.messages()
        if random.randrange(5) == 0:
            self.spoil(messages)
        variables = {"messages": messages}
        if random.randrange(4):
            variables["add_generation_prompt"] = random.randrange(4) != 0
        if random.randrange(2):
            variables["enable_thinking"] = variables["thinking"] = random.randrange(2) == 0
        if random.randrange(3) == 0:
            variables["tools"] = [self.tool() for _ in range(1 + random.randrange(3))]
        if random.randrange(6) == 0:
            variables["reasoning_effort"] = random.choice(["low", "medium", "high", ""])
        if random.randrange(10) == 0:
            variables[random.choice(["date_string", "model_identity", "documents", "builtin_tools", "preserve_thinking"])] = self.text()
        return variables
